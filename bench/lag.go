package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/internal/store"
)

// lagStream carries the times at which its chunks were written, in nanoseconds.
var lagStream = cairn.NewStream[int64]("lag")

// lagWorkload writes one chunk after the other, and measures how long after its Write each one is read: by a reader in the same process, and by one in another.
// Beside it: one raw insert after the other.
func lagWorkload(ctx context.Context, db *database, o options, out *report) error {
	return withEngine(ctx, db, func(e *cairn.Engine, loop *rawLoop) error {
		contexts, ids, stop, err := pens(ctx, e, 2)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		other, err := spawnReader(ctx, child{Place: db.place("cairn"), Lag: ids[1]})
		if err != nil {
			return errors.Join(err, stop())
		}
		for _, c := range []struct {
			figure string
			step   int
			lags   <-chan time.Duration
		}{
			{"in process", 0, readLags(ctx, e, ids[0])},
			{"across processes", 1, other},
		} {
			//nolint:contextcheck // a step writes with its own
			write := func() error { return lagStream.Write(contexts[c.step], time.Now().UnixNano()) }
			ours, theirs, err := pairs(ctx, o.pairs(), o.slice, lagSide(db, write, c.lags), db.loop(loop.insert))
			if err != nil {
				return errors.Join(err, stop())
			}
			r := compareLatency("lag", db, ours, theirs)
			r.Figure, r.Note = c.figure, "a chunk from its Write until a reader has it; the ratio counts raw commits"
			if err := out.add(r); err != nil {
				return errors.Join(err, stop())
			}
		}
		return stop()
	})
}

// lagSide writes chunks, and waits for each to be read.
func lagSide(db *database, write func() error, lags <-chan time.Duration) side {
	return func(ctx context.Context, d time.Duration) (slice, error) {
		var s slice
		before, began := db.meter(), time.Now()
		for first := true; first || time.Since(began) < d; first = false {
			if err := write(); err != nil {
				return s, err
			}
			select {
			case lag, ok := <-lags:
				if !ok {
					return s, errors.New("the reader has ended")
				}
				s.latencies = append(s.latencies, lag)
			case <-time.After(patience):
				return s, errors.New("the reader does not see the chunk")
			case <-ctx.Done():
				return s, context.Cause(ctx)
			}
		}
		s.events, s.seconds, s.use = len(s.latencies), time.Since(began).Seconds(), db.meter().minus(before)
		return s, nil
	}
}

// readLags reads the stream of a run, and tells how late each chunk comes.
func readLags(ctx context.Context, e *cairn.Engine, run string) <-chan time.Duration {
	lags := make(chan time.Duration)
	go func() {
		defer close(lags)
		for c, err := range lagStream.Read(ctx, e, run) {
			if err != nil {
				return
			}
			select {
			case lags <- time.Since(time.Unix(0, c.Value)):
			case <-ctx.Done():
				return
			}
		}
	}()
	return lags
}

// spawnReader starts a process that reads the stream of a run, and returns what it tells.
func spawnReader(ctx context.Context, c child) (<-chan time.Duration, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	task, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, exe, childFlag, string(task))
	cmd.Stderr = os.Stderr
	answer, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(answer)
	if !lines.Scan() {
		return nil, errors.Join(errors.New("the reader did not start"), cmd.Wait())
	}
	lags := make(chan time.Duration)
	go func() {
		defer close(lags)
		defer func() { _ = cmd.Wait() }()
		for lines.Scan() {
			ns, err := strconv.ParseInt(strings.TrimSpace(lines.Text()), 10, 64)
			if err != nil {
				return
			}
			select {
			case lags <- time.Duration(ns):
			case <-ctx.Done():
				return
			}
		}
	}()
	return lags, nil
}

// tellLags is the process that reads: it prints how late each chunk comes.
func tellLags(ctx context.Context, c child, w io.Writer) error {
	st, err := c.Place.open(ctx)
	if err != nil {
		return err
	}
	e, err := cairn.New(ctx, store.NewHandle(st))
	if err != nil {
		return errors.Join(err, st.Close())
	}
	fmt.Fprintln(w, "ready")
	for lag := range readLags(ctx, e, c.Lag) {
		fmt.Fprintln(w, lag.Nanoseconds())
	}
	return errors.Join(stopEngine(ctx, e), st.Close())
}
