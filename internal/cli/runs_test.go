package cli_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/internal/cli"
)

// stuck tries its step again in an hour.
var stuck = cairn.NewWorkflow("stuck", func(ctx cairn.Context, _ int) (int, error) {
	return cairn.NewStep("push", func(context.Context, int) (int, error) { return 0, errors.New("it does not move") }).
		Retry(cairn.RetryPolicy{Attempts: 9, First: time.Hour}).Do(ctx, 0)
})

// arrival waits for a file, and looks when it is pushed.
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
		require.Regexp(t, `(?m)^because +enough\\u009b31m$`, shown, "no control character reaches the terminal")
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
		require.Contains(t, say("runs", "push", waiting.ID()), waiting.ID()) // it may have ended by the time it is described
		_, err = waiting.Result(t.Context())
		require.NoError(t, err)
		require.Contains(t, say("runs", "push", waiting.ID()), "has ended")

		later, err := chat.Start(t.Context(), e, 0, cairn.StartAfter(time.Hour))
		require.NoError(t, err)
		require.Contains(t, say("runs", "cancel", later.ID()), "has ended", "it had not begun")
	})
}
