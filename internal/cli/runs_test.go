package cli_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/internal/cli"
)

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
			return err == nil && info.Phase == "parked" && info.Error != nil && info.Error.Message == "a break"
		}, time.Minute, 5*time.Millisecond)
		say("runs", "resume", run.ID())
		say("runs", "cancel", run.ID(), "--reason", "enough")
		_, err = run.Result(t.Context())
		require.ErrorIs(t, err, cairn.ErrCancelled)
		shown := say("runs", "show", run.ID())
		require.Regexp(t, `(?m)^state +cancelled$`, shown)
		require.Regexp(t, `(?m)^because +enough$`, shown)
		require.Regexp(t, `(?m)^greet +completed +2 `, shown)
	})
}
