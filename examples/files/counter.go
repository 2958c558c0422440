package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cairn-workflow/cairn"
)

// File names one file below a folder.
type File struct{ Dir, Path string }

// Count is what is in one file.
type Count struct {
	Path                string
	Lines, Words, Bytes int
	Problem             string // why it could not be read
}

// Kind is what is in all files with one extension.
type Kind struct {
	Ext                        string
	Files, Lines, Words, Bytes int
}

// Report is what is in all files.
type Report struct {
	Kinds   []Kind // the one with the most words first
	Skipped []string
}

// counter has the workflow and its step.
type counter struct {
	pace     time.Duration // the least that a file takes, so that there is something to see
	most     int           // files
	parallel int

	workflow *cairn.Workflow[string, Report]
	count    cairn.Step[File, Count]
}

func newCounter(pace time.Duration, most, parallel int) *counter {
	c := &counter{pace: pace, most: most, parallel: parallel}
	c.workflow = cairn.NewWorkflow("count words", c.run)
	// A step without a heartbeat for so long hangs: it is stopped, and tried again.
	c.count = cairn.NewStep("count", c.countFile).HeartbeatTimeout(10 * time.Second).Retry(cairn.RetryPolicy{
		Attempts: 3, First: 100 * time.Millisecond, Never: []cairn.Code{errUnreadable.Code},
	})
	return c
}

var errUnreadable = cairn.NewError("unreadable", "the file cannot be read")

// run is the workflow: it lists the files, counts each in a step of its own, a few at a time, and adds up.
func (c *counter) run(ctx cairn.Context, dir string) (Report, error) {
	// What is in a folder can change, so listing it is a step: when the workflow is executed again, it works on the same list.
	paths, err := cairn.Do(ctx, "list", func(ctx context.Context) ([]string, error) { return c.list(ctx, dir) })
	if err != nil {
		return Report{}, err
	}
	// The key of each branch is the path. So what is counted stays counted, however far the run had come when it was interrupted.
	path := func(p string) string { return p }
	counts, err := cairn.Map(ctx, "file", paths, c.parallel, func(ctx cairn.Context, p string) (Count, error) {
		n, err := c.count.Do(ctx, File{Dir: dir, Path: p})
		if errors.Is(err, errUnreadable) { // one bad file does not spoil the rest
			return Count{Path: p, Problem: err.Error()}, nil
		}
		return n, err
	}, cairn.KeyBy(path))
	if err != nil {
		return Report{}, err
	}
	return cairn.Do(ctx, "add up", func(context.Context) (Report, error) { return addUp(counts), nil })
}

// list finds the files below a folder, without those that are hidden.
func (c *counter) list(ctx context.Context, dir string) ([]string, error) {
	var paths []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case path != dir && strings.HasPrefix(entry.Name(), ".") && entry.IsDir():
			return fs.SkipDir
		case !entry.Type().IsRegular() || strings.HasPrefix(entry.Name(), "."):
			return nil
		case len(paths) == c.most:
			return fs.SkipAll
		}
		relative, err := filepath.Rel(dir, path)
		paths = append(paths, filepath.ToSlash(relative))
		return err
	})
	return paths, err
}

// pieces is in how many pieces a file is read.
const pieces = 8

// countFile counts one file, and reports how far it has come.
func (c *counter) countFile(ctx context.Context, f File) (Count, error) {
	file, err := os.Open(filepath.Join(f.Dir, filepath.FromSlash(f.Path)))
	if err != nil {
		return Count{}, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	defer file.Close() //nolint:errcheck // it was only read
	info, err := file.Stat()
	if err != nil {
		return Count{}, err
	}
	n, inWord := Count{Path: f.Path}, false
	for buffer := make([]byte, info.Size()/pieces+1); ; {
		read, err := file.Read(buffer)
		for _, b := range buffer[:read] {
			space := b == ' ' || b >= '\t' && b <= '\r'
			if !space && !inWord {
				n.Words++
			}
			if b == '\n' {
				n.Lines++
			}
			inWord = !space
		}
		n.Bytes += read
		cairn.Progress(ctx, float64(n.Bytes)/float64(max(info.Size(), 1)), fmt.Sprintf("%d words", n.Words))
		switch {
		case errors.Is(err, io.EOF):
			return n, nil
		case err != nil:
			return n, err
		}
		select {
		case <-time.After(c.pace / pieces):
		case <-ctx.Done():
			return n, context.Cause(ctx)
		}
	}
}

func addUp(counts []Count) Report {
	var report Report
	kinds := map[string]*Kind{}
	for _, n := range counts {
		if n.Problem != "" {
			report.Skipped = append(report.Skipped, n.Path+": "+n.Problem)
			continue
		}
		ext := cmp.Or(strings.ToLower(filepath.Ext(n.Path)), "(none)")
		if kinds[ext] == nil {
			kinds[ext] = &Kind{Ext: ext}
		}
		k := kinds[ext]
		k.Files++
		k.Lines += n.Lines
		k.Words += n.Words
		k.Bytes += n.Bytes
	}
	for _, k := range kinds {
		report.Kinds = append(report.Kinds, *k)
	}
	slices.SortFunc(report.Kinds, func(a, b Kind) int { return cmp.Or(cmp.Compare(b.Words, a.Words), strings.Compare(a.Ext, b.Ext)) })
	return report
}
