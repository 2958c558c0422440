package cli_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/internal/cli"
	"github.com/cairn-workflow/cairn/store/open"
)

// stuck tries its step again in an hour.
var stuck = cairn.NewWorkflow("stuck", func(ctx cairn.Context, _ int) (int, error) {
	return cairn.NewStep("push", func(context.Context, int) (int, error) { return 0, errors.New("it does not move") }).
		Retry(cairn.RetryPolicy{Attempts: 9, First: time.Hour}).Do(ctx, 0)
})

// arrival waits for a file, and checks when it is told to.
var arrival = cairn.NewWorkflow("arrival", func(ctx cairn.Context, path string) (string, error) {
	return cairn.NewPoll("file", 0, func(_ context.Context, path string) (string, bool, error) {
		_, err := os.Stat(path)
		return path, err == nil, nil
	}).Wait(ctx, path)
})

// A program that executes a run learns what the command line does to it.
func TestRunsOfAnotherProcess(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, address string) {
		t.Helper()
		e, end, err := chatEngine(t.Context(), address)
		require.NoError(t, err)
		defer func() { require.NoError(t, end()) }()
		run, err := chat.Start(t.Context(), e, 1000*time.Hour)
		require.NoError(t, err)
		say := func(args ...string) string {
			t.Helper()
			var out, errs bytes.Buffer
			system := terminal(&out, &errs, map[string]string{"NO_COLOR": "1", "CAIRN_STORE": address, "USER": "grace"})
			require.Equal(t, cli.ExitOK, cli.Run(t.Context(), args, system), errs.String())
			return out.String()
		}

		require.Contains(t, say("runs"), run.ID())
		say("runs", "pause", run.ID(), "--reason", "a break")
		require.Eventually(t, func() bool {
			info, err := run.Describe(t.Context())
			return err == nil && info.Phase == cairn.PhasePaused && info.Error != nil && info.Error.Message == "a break"
		}, time.Minute, 5*time.Millisecond)
		say("runs", "resume", run.ID())
		say("runs", "cancel", run.ID(), "--reason", "enough\u009b31m")
		_, err = run.Result(t.Context())
		require.ErrorIs(t, err, cairn.ErrCancelled)
		shown := say("runs", "show", run.ID())
		require.Regexp(t, `(?m)^state +cancelled$`, shown)
		require.Regexp(t, `(?m)^reason +enough\\u009b31m$`, shown, "no control character reaches the terminal")
		greeted := regexp.MustCompile(`(?m)^greet +completed +2 .*$`)
		require.Regexp(t, greeted, shown)

		fork, _, _ := strings.Cut(say("runs", "fork", run.ID(), "--from", "sleep"), " ")
		require.Equal(t, greeted.FindString(shown), greeted.FindString(say("runs", "show", fork)), "it is as long ago, and took as long, as in the run that it is from")

		failing, err := stuck.Start(t.Context(), e, 0)
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			info, err := failing.Describe(t.Context())
			return err == nil && len(info.Waits) == 1 && info.Waits[0].Kind == "retry"
		}, time.Minute, 5*time.Millisecond)
		require.Regexp(t, `(?m)^waits for +retry, push, until .*it does not move$`, say("runs", "show", failing.ID()))
		require.Contains(t, say("runs", "terminate", failing.ID()), "has ended")
		require.Regexp(t, `(?m)^push +cancelled +1 `, say("runs", "show", failing.ID()), "a step does not go on when its run has ended")

		path := filepath.Join(t.TempDir(), "file")
		waiting, err := arrival.Start(t.Context(), e, path)
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			info, err := waiting.Describe(t.Context())
			return err == nil && len(info.Waits) == 1 && info.Waits[0].Kind == "poll"
		}, time.Minute, 5*time.Millisecond)
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		require.Contains(t, say("runs", "poll-now", waiting.ID()), waiting.ID()) // it may have ended by the time it is described
		_, err = waiting.Result(t.Context())
		require.NoError(t, err)
		require.Contains(t, say("runs", "poll-now", waiting.ID()), "has ended")

		later, err := chat.Start(t.Context(), e, 0, cairn.StartAfter(time.Hour))
		require.NoError(t, err)
		require.Contains(t, say("runs", "cancel", later.ID()), "has ended", "it had not begun")
	})
}

// program is a build of a program with workflows.
func program(t *testing.T, address, build string, workflows ...cairn.Definition) (*cairn.Engine, func()) {
	t.Helper()
	st, err := open.URL(t.Context(), address)
	require.NoError(t, err)
	config := cairn.Config{Build: build, Logger: slog.New(slog.DiscardHandler)}
	e, err := cairn.NewWith(t.Context(), st, config, workflows...)
	require.NoError(t, err)
	return e, func() {
		require.NoError(t, e.Stop(context.WithoutCancel(t.Context())))
		require.NoError(t, st.Close())
	}
}

// counting counts, waits until it is told to go on, and returns the count as a type of today's.
func counting[T any](name string) *cairn.Workflow[int, T] {
	return cairn.NewWorkflow(name, func(ctx cairn.Context, _ int) (T, error) {
		count, err := cairn.Do(ctx, "count", func(context.Context) (T, error) {
			var v T
			return v, nil
		})
		if err != nil {
			return count, err
		}
		_, err = goOn.Wait(ctx)
		return count, err
	})
}

var goOn = cairn.NewHook[int]("go on")

// untidy fails to clean up.
var untidy = cairn.NewWorkflow("untidy", func(ctx cairn.Context, _ int) (int, error) {
	_, err := goOn.Wait(ctx)
	return 0, errors.Join(err, errors.New("the refund was refused"))
})

func TestRunsResume_Parked_GoOnWithTheNextBuild(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, address string) {
		t.Helper()
		say := func(args ...string) string {
			t.Helper()
			var out, errs bytes.Buffer
			system := terminal(&out, &errs, map[string]string{"NO_COLOR": "1", "CAIRN_STORE": address, "USER": "grace"})
			require.Equal(t, cli.ExitOK, cli.Run(t.Context(), args, system), errs.String())
			return out.String()
		}
		e, stop := program(t, address, "1", counting[string]("one"), counting[string]("two"))
		var ids []string
		for _, wf := range []*cairn.Workflow[int, string]{counting[string]("one"), counting[string]("two")} {
			run, err := wf.Start(t.Context(), e, 0, cairn.Key("first"))
			require.NoError(t, err)
			ids = append(ids, run.ID())
			require.Eventually(t, func() bool {
				return strings.Contains(say("runs", "--phase", "waiting"), run.ID())
			}, time.Minute, 5*time.Millisecond)
		}
		one, two := ids[0], ids[1]
		require.Regexp(t, `(?m)^state +running \(waiting\)$`, say("runs", "show", one))
		require.Contains(t, say("runs", "--workflow", "two", "--start-key", "first"), two)
		stop()

		e, stop = program(t, address, "2", counting[[]int]("one"), counting[[]int]("two"))
		for _, id := range ids {
			require.NoError(t, goOn.SendTo(t.Context(), e, id, 1))
			require.Eventually(t, func() bool {
				return strings.Contains(say("runs", "--phase", "parked"), id)
			}, time.Minute, 5*time.Millisecond)
		}
		require.Empty(t, say("runs", "--phase", "paused"))
		shown := say("runs", "show", one)
		require.Regexp(t, `(?m)^state +running \(parked\)$`, shown)
		require.Regexp(t, `(?m)^reason +decode_failed: `, shown)
		require.Regexp(t, `(?m)^place +count$`, shown)
		require.Regexp(t, `(?ms)^STACK$.^goroutine .*runs_test\.go:`, shown)
		require.Regexp(t, `(?m)^recorded +string$`, shown)
		require.Regexp(t, `(?m)^wanted +\[\]int$`, shown)
		require.Regexp(t, `(?m)^next +.*cairn runs resume `+one+`$`, shown)
		require.Regexp(t, `"details":{"place":"count","recorded":"string","wanted":"\[\]int"}`, say("runs", "show", one, "--json"))
		stop()

		dry := say("runs", "resume", "--parked", "--workflow", "one", "--dry-run")
		require.Regexp(t, `^`+one+` +one +\S.*\n1 run would be resumed\n$`, dry)
		require.Contains(t, say("runs", "--phase", "parked"), one, "nothing was changed")
		resumed := say("runs", "resume", "--parked", "--workflow", "one", "--actor", "ada", "--json")
		require.Regexp(t, `^{"id":"`+one+`","workflow":"one","reason":"\S.*"}\n$`, resumed)
		parked := say("runs", "--phase", "parked")
		require.NotContains(t, parked, one)
		require.Contains(t, parked, two, "it is of another workflow")
		require.Regexp(t, `^`+two+` .*\n1 run resumed\n$`, say("runs", "resume", "--parked"))

		e, stop = program(t, address, "2", counting[string]("one"), counting[string]("two"))
		defer stop()
		actors := 0
		for _, id := range ids {
			info, err := e.Run(id).Wait(t.Context())
			require.NoError(t, err)
			require.Equal(t, cairn.StatusCompleted, info.Status)
			for event, err := range e.Run(id).History(t.Context()) {
				require.NoError(t, err)
				if event.Type == "run_resumed" && strings.Contains(string(event.Detail), `"ada"`) {
					actors++
				}
			}
		}
		require.Equal(t, 1, actors)
	})
}

func TestRunsShow_Cancelled_ShowsCleanUp(t *testing.T) {
	t.Parallel()
	address := filepath.Join(t.TempDir(), "app.db")
	e, stop := program(t, address, "1", untidy)
	defer stop()
	run, err := untidy.Start(t.Context(), e, 0)
	require.NoError(t, err)
	require.NoError(t, run.By("ada").Cancel(t.Context(), "too dear"))
	_, err = run.Wait(t.Context())
	require.NoError(t, err)
	for format, wanted := range map[string]string{
		"--json=false": `(?m)^reason +too dear\n(.*\n)*actor +ada\nclean-up +.*the refund was refused`,
		"--json":       `"reason":"too dear","actor":"ada",.*"cleanUp":{"code":"\w+","message":".*the refund was refused`,
	} {
		var out, errs bytes.Buffer
		args := []string{"runs", "show", run.ID(), format, "--store", address}
		require.Equal(t, cli.ExitOK, cli.Run(t.Context(), args, terminal(&out, &errs, nil)), errs.String())
		require.Regexp(t, wanted, out.String())
	}
}
