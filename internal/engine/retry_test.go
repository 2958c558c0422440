package engine

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/journal"
)

// A pause is never longer than the policy's longest, whatever the jitter adds to it, and never negative.
func TestRetryPauseHasALimit(t *testing.T) {
	t.Parallel()
	const year = 365 * 24 * time.Hour
	failed := errors.New("failed")
	for name, test := range map[string]struct {
		retry   Retry
		longest time.Duration
	}{
		"below the limit, with jitter above it": {Retry{First: 9 * time.Second, Max: 10 * time.Second, Factor: 1, Jitter: 0.5}, 10 * time.Second},
		"at the limit":                          {Retry{First: 10 * time.Second, Max: 10 * time.Second, Jitter: 1}, 10 * time.Second},
		"grows over it":                         {Retry{First: time.Second, Max: time.Minute, Factor: 3, Jitter: 0.2}, time.Minute},
		"begins over it":                        {Retry{First: time.Hour, Max: time.Minute, Jitter: 0.2}, time.Minute},
		"more jitter than there is":             {Retry{First: time.Second, Max: time.Minute, Jitter: 7}, time.Minute},
		"no limit of its own":                   {Retry{First: time.Hour, Factor: 100, Jitter: 1}, year},
	} {
		test.retry.Attempts = 100
		for attempt := 1; attempt < test.retry.Attempts; attempt++ {
			for step := range 20 { // each has a jitter of its own
				pause, again := test.retry.next(journal.ID{}, strconv.Itoa(step), attempt, failed)
				require.True(t, again)
				require.LessOrEqual(t, pause, test.longest, "%s: attempt %d of step %d", name, attempt, step)
				require.GreaterOrEqual(t, pause, time.Duration(0), "%s: attempt %d of step %d", name, attempt, step)
			}
		}
	}
}
