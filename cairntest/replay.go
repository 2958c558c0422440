package cairntest

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/internal/bubble"
	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/export"
	"github.com/cairn-workflow/cairn/internal/store"
)

// Replay executes workflows against runs that were recorded with [cairn.RunHandle.Export], [Env.Export] or "cairn export", and fails the test at the first
// place where the code does not do what was recorded. Path is a file, or a pattern of [filepath.Glob]: then each file is a test of its own.
//
//	func TestRecordedOrders(t *testing.T) { cairntest.Replay(t, "testdata/*.jsonl", Order, Shipment) }
//
// The code is executed as after a crash: steps, polls, hooks and children return what is recorded, and nothing else is
// done. No step and no check runs, no child is started, nothing is written. If the run had not ended, the code may do
// anything after the last recorded event. The children's workflows need not be given.
func Replay(t *testing.T, path string, workflows ...cairn.Definition) {
	t.Helper()
	files, err := filepath.Glob(path)
	if err != nil || len(files) == 0 {
		t.Fatalf("no recorded run at %s (%v)", path, err)
	}
	if len(files) == 1 && !strings.ContainsAny(path, `*?[`) {
		replayFile(t, files[0], workflows)
		return
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)), func(t *testing.T) { replayFile(t, file, workflows) })
	}
}

// hang is how long code may wait for something that is not durable: a channel that nobody sends to, in virtual time.
const hang = 24 * time.Hour

func replayFile(t *testing.T, file string, workflows []cairn.Definition) {
	t.Helper()
	recorded, err := os.Open(file)
	if err != nil {
		t.Fatalf("open a recorded run: %v", err)
	}
	defer recorded.Close() //nolint:errcheck // it was only read
	bubble.Run(t, func(t *testing.T) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), hang)
		defer cancel()
		if err := ReplayFrom(ctx, recorded, workflows...); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	})
}

// ReplayFrom is [Replay] without a test, or for a run that is not in a file. A difference is an error with code
// "mismatch", whose details are the event, the key, what was recorded, and what the code does now. Without a test there
// is no virtual time: if the code blocks outside durable calls, ReplayFrom waits until ctx ends.
func ReplayFrom(ctx context.Context, recorded io.Reader, workflows ...cairn.Definition) error {
	run, err := export.Read(recorded)
	if err != nil {
		return err
	}
	var inner *engine.Engine
	hooks := &engine.Testing{Started: func(e *engine.Engine) { inner = e }}
	eng, err := cairn.NewWith(engine.WithTesting(ctx, hooks), store.NewHandle(&recording{run: run}), cairn.Config{Poll: forever, Lease: forever, Logger: slog.New(slog.DiscardHandler)}, workflows...)
	if err != nil {
		return err
	}
	difference, err := inner.Replay(ctx, run.Header.Namespace, run.ID)
	if err == nil && difference != nil {
		err = difference.Err()
	}
	return errors.Join(err, eng.Stop(context.WithoutCancel(ctx)))
}

// Export writes a run to a file, for [Replay]. It never overwrites a file: keep recorded runs, because later code is
// checked against them.
func (e *Env) Export(runID, file string) {
	e.t.Helper()
	out, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		e.t.Fatalf("record %s: %v", runID, err)
	}
	err = e.Engine().Run(runID).Export(e.ctx, out)
	if err = errors.Join(err, out.Close()); err != nil {
		_ = os.Remove(file)
		e.t.Fatalf("record %s: %v", runID, err)
	}
}
