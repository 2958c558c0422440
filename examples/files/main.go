// Command files counts the words of the files in a folder, a few at a time, each in a step of its own. It shows how far each has come; and what is
// counted stays counted when it is stopped.
//
//	go run ./examples/files                  # this folder
//	go run ./examples/files -dir docs        # another one
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"time"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/examples/internal/program"
	"github.com/cairn-workflow/cairn/examples/internal/show"
	"github.com/cairn-workflow/cairn/store/open"
)

func main() { program.Main("files", run) }

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	began := time.Now()
	flags := flag.NewFlagSet("files", flag.ExitOnError)
	db := flags.String("db", "files.db", "where the results are kept: a SQLite file, or postgres://…")
	dir := flags.String("dir", ".", "the folder")
	parallel := flags.Int("parallel", 4, "how many files are counted at the same time")
	most := flags.Int("most", 200, "how many files are counted at most")
	pace := flags.Duration("pace", 300*time.Millisecond, "how long a file takes at least, so that there is something to see")
	if err := flags.Parse(args); err != nil {
		return err
	}
	root, err := filepath.Abs(*dir) // the run may go on in a process that was started elsewhere
	if err != nil {
		return err
	}
	st, err := open.URL(ctx, *db)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, st.Close()) }()

	c := newCounter(*pace, *most, *parallel)
	watch := func(eng *cairn.Engine) error { return c.startAndWatch(ctx, eng, began, root, out) }
	return program.WithEngine(ctx, st, program.Lease, []cairn.Definition{c.workflow}, watch, out, "Start it again, and it goes on with the files that are left.")
}

func (c *counter) startAndWatch(ctx context.Context, eng *cairn.Engine, began time.Time, dir string, out io.Writer) error {
	about := map[string]string{"dir": dir}
	number, unfinished, err := show.Next(ctx, eng, began, cairn.Filter{Workflow: c.workflow.Name(), Attributes: about})
	if err != nil {
		return err
	}
	if unfinished {
		fmt.Fprintf(out, "Counting goes on in %s\n(%s).\n\n", dir, show.AfterKill)
	} else {
		fmt.Fprintf(out, "Counting in %s\n%s\n\n", dir, show.StopMe)
	}
	// The start key makes it safe to repeat: a run that was started before is found by it.
	about[show.Number] = strconv.Itoa(number)
	r, err := c.workflow.Start(ctx, eng, dir, cairn.Key(fmt.Sprint(dir, " ", number)), cairn.Attributes(about))
	if err != nil {
		return err
	}
	if err := show.Resume(ctx, eng, r.ID()); err != nil {
		return err
	}
	if err := show.Watch(ctx, eng, out, show.Options{Title: title, Caption: caption}, r.ID()); err != nil {
		return err
	}
	report, err := r.Result(ctx)
	if err != nil {
		return err
	}
	printReport(out, report)
	return nil
}

func title(info *cairn.RunInfo) string { return "count " + filepath.Base(info.Attributes["dir"]) }

// caption shows how many files are counted, of those that the first step has found.
func caption(r *show.Run) string {
	list := r.Row("list")
	if list == nil || list.State != show.Done {
		return ""
	}
	var paths []string
	if err := list.Result(&paths); err != nil || len(paths) == 0 {
		return ""
	}
	done := r.Done("count")
	return fmt.Sprintf("%s %d of %d files", show.Bar(float64(done)/float64(len(paths)), 30), done, len(paths))
}

func printReport(out io.Writer, report Report) {
	const row = "%-10s %8v %10v %10v %12v\n"
	fmt.Fprintf(out, "\n"+row, "kind", "files", "lines", "words", "bytes")
	var all Kind
	for _, k := range report.Kinds {
		fmt.Fprintf(out, row, k.Ext, k.Files, k.Lines, k.Words, k.Bytes)
		all.Files += k.Files
		all.Lines += k.Lines
		all.Words += k.Words
		all.Bytes += k.Bytes
	}
	fmt.Fprintf(out, row, "all", all.Files, all.Lines, all.Words, all.Bytes)
	for _, s := range report.Skipped {
		fmt.Fprintln(out, "left out:", s)
	}
}
