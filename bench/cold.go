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
	"time"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/internal/store"
)

// childFlag makes the program one of the processes that the workloads cold and lag start. What follows is a [child].
const childFlag = "-cold-child"

// child is what a new process is to do before it says that it is done.
type child struct {
	Place place
	Raw   bool   // insert one row into the plain table, and not complete one run
	Lag   string // read the stream of this run instead
}

// coldWorkload starts new processes, and measures from their start to the result of their first run. Beside it: a new process that inserts
// one row into the plain table.
func coldWorkload(ctx context.Context, db *database, o options, out *report) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	var migrated, empty, raw []float64
	for i := range o.pairs() {
		old := db.place("old" + strconv.Itoa(i))
		st, err := old.open(ctx)
		if err != nil {
			return err
		}
		if err := st.Close(); err != nil {
			return err
		}
		for _, c := range []struct {
			child
			ms *[]float64
		}{
			{child{Place: old}, &migrated},
			{child{Place: db.place("new" + strconv.Itoa(i))}, &empty},
			{child{Place: db.rawPlace(), Raw: true}, &raw},
		} {
			ms, err := spawn(ctx, exe, c.child)
			if err != nil {
				return err
			}
			*c.ms = append(*c.ms, ms)
		}
	}
	for _, c := range []struct {
		figure, about string
		ms            []float64
	}{
		{"migrated", "the tables are there", migrated},
		{"new", "the tables must be made first", empty},
	} {
		ratios := make([]float64, len(raw))
		for i := range raw {
			ratios[i] = over(c.ms[i], raw[i])
		}
		err := out.add(row{
			Bench: "cold", Figure: c.figure, Store: db.kind, InFlight: 1, Value: median(c.ms), Unit: "ms", Raw: median(raw), Ratio: median(ratios), Pairs: len(raw),
			Note: "start of a process to the result of its first run, " + c.about + "; raw: to its first insert",
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// spawn starts a process, and returns how many milliseconds it takes until it says that it is done.
func spawn(ctx context.Context, exe string, c child) (ms float64, err error) {
	task, err := json.Marshal(c)
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, exe, childFlag, string(task))
	cmd.Stderr = os.Stderr
	answer, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	_, readErr := bufio.NewReader(answer).ReadString('\n')
	ms = float64(time.Since(began).Microseconds()) / 1000
	if err := cmd.Wait(); err != nil {
		return 0, fmt.Errorf("the new process failed: %w", err)
	}
	return ms, readErr
}

// runChild is what the new process does.
func runChild(ctx context.Context, task string, w io.Writer) error {
	var c child
	if err := json.Unmarshal([]byte(task), &c); err != nil {
		return err
	}
	if c.Lag != "" {
		return tellLags(ctx, c, w)
	}
	if c.Raw {
		return firstInsert(ctx, c.Place, w)
	}
	return firstRun(ctx, c.Place, w)
}

func firstInsert(ctx context.Context, p place, w io.Writer) error {
	raw, err := p.openRaw(ctx)
	if err != nil {
		return err
	}
	if err := raw.insert(ctx, 1); err != nil {
		return errors.Join(err, raw.close())
	}
	fmt.Fprintln(w, "done")
	return raw.close()
}

func firstRun(ctx context.Context, p place, w io.Writer) error {
	st, err := p.open(ctx)
	if err != nil {
		return err
	}
	e, err := cairn.New(ctx, store.NewHandle(st), stepsWorkflow)
	if err != nil {
		return errors.Join(err, st.Close())
	}
	if err = execute(e, stepsWorkflow, 1)(ctx); err == nil {
		fmt.Fprintln(w, "done")
	}
	return errors.Join(err, stopEngine(ctx, e), st.Close())
}
