// Package clock reads clocks.
package clock

import (
	"context"
	"time"
	clock "time"

	"github.com/cairn-workflow/cairn"
)

func workflow(ctx cairn.Context, since time.Time) (time.Duration, error) {
	_ = time.Now()                  // want `time.Now in a workflow is different when it is executed again: use cairn.Now\(ctx\) \[time\]`
	_ = clock.Now().Sub(time.Now()) // want `time.Now in` `time.Now in`
	_ = time.Since(since)           // want `time.Since in a workflow .* use cairn.Now\(ctx\).Sub\(t\)`
	_ = time.Until(since)           // want `time.Until in`
	time.Sleep(time.Second)         // want `time.Sleep in a workflow .* use cairn.Sleep\(ctx, d\)`
	timer := time.NewTimer(1)       // want `time.NewTimer in`
	ticker := time.NewTicker(1)     // want `time.NewTicker in`
	_ = time.After(1)               // want `time.After in`
	_ = time.Tick(1)                // want `time.Tick in`
	time.AfterFunc(1, func() {})    // want `time.AfterFunc in`
	timer.Stop()
	ticker.Stop()
	now := time.Now // want `time.Now in`
	return now().Sub(cairn.Now(ctx)), cairn.Sleep(ctx, time.Second)
}

func limits(ctx cairn.Context, at time.Time) error {
	short, cancel := context.WithTimeout(ctx, time.Second) // want `context.WithTimeout in a workflow begins anew when it is executed again: use cairn.WithTimeout`
	defer cancel()
	_, stop := context.WithDeadlineCause(ctx, at, nil) // want `context.WithDeadlineCause in`
	defer stop()
	_, end := context.WithTimeout(context.Background(), time.Second) // not the workflow's
	defer end()
	_ = short
	within, done := cairn.WithTimeout(ctx, time.Second)
	defer done()
	return cairn.Sleep(within, time.Hour)
}

func fine(ctx cairn.Context, d time.Duration) (time.Time, error) {
	t := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(d)
	if t.After(cairn.Now(ctx)) { // a method of the same name
		return t, cairn.SleepUntil(ctx, t)
	}
	return cairn.Do(ctx, "now", func(ctx context.Context) (time.Time, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_ = ctx
		return time.Now(), nil
	})
}

func outside() time.Time { return time.Now() }
