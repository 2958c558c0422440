package cli_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/internal/cli"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/open"
)

// talkCommand makes a database with a run that has said something, and prints the run's id: talk URL.
func talkCommand() {
	id, err := talk(context.Background(), os.Args[1])
	fmt.Println(id)
	exit(err)
}

// chat says something in a workflow and in the two attempts of a step, and waits for its end.
var (
	greet = cairn.NewStep("greet", func(ctx context.Context, name string) (string, error) {
		l := cairn.Logger(ctx)
		if cairn.Attempt(ctx) == 1 {
			l.WarnContext(ctx, "not yet", slog.Any("error", errors.New("the line is busy")), slog.Int("n", 1))
			return "", errors.New("the line is busy")
		}
		l.InfoContext(ctx, "greeted\x1b[31m\nnobody", slog.String("name", name), slog.Group("g", slog.Bool("b", true)))
		return "hello " + name, nil
	}).Retry(cairn.RetryPolicy{Attempts: 2})

	chat = cairn.NewWorkflow("chat", func(ctx cairn.Context, wait time.Duration) (string, error) {
		cairn.Logger(ctx).Debug("begins")
		out, err := greet.Do(ctx, "ada")
		if err != nil {
			return "", err
		}
		if wait > 0 {
			if err := cairn.Sleep(ctx, wait); err != nil {
				return "", err
			}
		}
		cairn.Logger(ctx).Error("ends")
		return out, nil
	})
)

func chatEngine(ctx context.Context, url string) (*cairn.Engine, func() error, error) {
	db, err := open.URL(ctx, url)
	if err != nil {
		return nil, nil, err
	}
	e, err := cairn.NewWith(ctx, store.NewHandle(db), cairn.Config{Logger: slog.New(slog.DiscardHandler), KeepLogs: &cairn.KeepLogs{Level: slog.LevelDebug}}, chat, stuck, arrival)
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return e, func() error { return errors.Join(e.Stop(context.WithoutCancel(ctx)), db.Close()) }, nil
}

func talk(ctx context.Context, url string) (id string, err error) {
	e, end, err := chatEngine(ctx, url)
	if err != nil {
		return "", err
	}
	run, err := chat.Start(ctx, e, 0)
	if err != nil {
		return "", errors.Join(err, end())
	}
	_, err = run.Result(ctx)
	return run.ID(), errors.Join(err, end())
}

func TestLogsOnEveryStore(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, address string) {
		t.Helper()
		id, err := talk(t.Context(), address)
		require.NoError(t, err)
		var out, errs bytes.Buffer
		system := terminal(&out, &errs, map[string]string{"NO_COLOR": "1"})
		require.Equal(t, cli.ExitOK, cli.Run(t.Context(), []string{"logs", id, "--store", address}, system), errs.String())
		var lines []string
		for line := range strings.Lines(out.String()) {
			_, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
			lines = append(lines, rest)
		}
		require.Equal(t, []string{
			"DEBUG begins", `WARN  [greet] not yet error="the line is busy" n=1`, `INFO  [greet (attempt 2)] greeted\x1b[31m\nnobody name=ada g={"b":true}`, "ERROR ends",
		}, lines)
	})
}

// Following a run shows its lines as they come, and ends with it.
func TestLogsFollow(t *testing.T) {
	t.Parallel()
	address := filepath.Join(t.TempDir(), "app.db")
	e, end, err := chatEngine(t.Context(), address)
	require.NoError(t, err)
	defer func() { require.NoError(t, end()) }()
	run, err := chat.Start(t.Context(), e, time.Second)
	require.NoError(t, err)
	var out, errs bytes.Buffer
	system := terminal(&out, &errs, map[string]string{"NO_COLOR": "1"})
	require.Equal(t, cli.ExitOK, cli.Run(t.Context(), []string{"logs", run.ID(), "--follow", "--level", "warn", "--store", address}, system), errs.String())
	require.Equal(t, 2, strings.Count(out.String(), "\n"), out.String())
	require.Contains(t, out.String(), "ERROR ends")

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	endless, err := chat.Start(t.Context(), e, time.Hour)
	require.NoError(t, err)
	out.Reset()
	require.Equal(t, cli.ExitProblem, cli.Run(ctx, []string{"logs", endless.ID(), "-f", "--tail", "1", "--store", address}, system), "it is interrupted")
}
