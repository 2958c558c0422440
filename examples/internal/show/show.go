// Package show shows runs in a terminal while they go on: their status, what they wait for, and a timeline of what happened. Where nobody
// looks, in a file or a pipe, it writes a line whenever something changes.
//
// It reads only what every program can read: [cairn.RunHandle.Describe], [cairn.RunHandle.History] and [cairn.Engine.List].
package show

import (
	"cmp"
	"context"
	"io"
	"os"
	"time"

	"github.com/mattn/go-isatty"

	"github.com/cairn-workflow/cairn"
)

// What the examples say when they start.
const (
	StopMe    = "Ctrl-C or kill -9, then start again: it goes on."
	AfterKill = "after a kill -9 it takes a few seconds: the lease"
)

// Options say what a program wants to show beside what is always shown. All may be left out.
type Options struct {
	// Title names a run for people. Defaults to its start key, or its workflow if it has none.
	Title func(*cairn.RunInfo) string
	// Caption is a line below the title of a run, such as a bar for its progress as a whole; "" is none.
	Caption func(*Run) string
	// Hints are lines that tell people what they can do about something that a run waits for.
	Hints func(cairn.Wait) []string
	// Every is how often the screen is drawn. Defaults to a tenth of a second.
	Every time.Duration
}

// view is a way to show runs.
type view interface {
	// show is called again and again.
	show(runs []*Run, now time.Time)
	// end is called once, with how things are in the end.
	end(runs []*Run, now time.Time)
}

// Watch shows runs, and the children below them, until all have ended or need somebody to look at them: then it returns nil. If ctx ends
// first, it returns why.
func Watch(ctx context.Context, eng *cairn.Engine, out io.Writer, o Options, ids ...string) error {
	if o.Title == nil {
		o.Title = func(i *cairn.RunInfo) string { return cmp.Or(i.StartKey, i.Workflow) }
	}
	if o.Every <= 0 {
		o.Every = 100 * time.Millisecond
	}
	var v view = &lines{out: out, o: &o}
	if file, ok := out.(*os.File); ok && isTerminal(file) {
		v = &screen{out: file, o: &o, began: time.Now()}
	}
	tick := time.NewTicker(o.Every)
	defer tick.Stop()
	var runs []*Run
	for {
		next, err := readAll(ctx, eng, runs, ids)
		switch {
		case err == nil:
			runs = next
		case ctx.Err() == nil:
			return err
		}
		if over := allOver(runs); over || ctx.Err() != nil {
			v.end(runs, time.Now())
			if over {
				return nil
			}
			return context.Cause(ctx)
		}
		v.show(runs, time.Now())
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// isTerminal reports whether people look at the file, and it can be drawn on.
func isTerminal(file *os.File) bool {
	return isatty.IsTerminal(file.Fd()) && os.Getenv("TERM") != "dumb"
}

func allOver(runs []*Run) bool {
	for _, r := range runs {
		if !r.over() {
			return false
		}
	}
	return len(runs) > 0
}
