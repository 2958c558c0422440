package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/store/open"
)

const patience = 30 * time.Second

// folder makes a folder with files in it.
func folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for path, content := range map[string]string{
		"a.md":            "one two\nthree\n",
		"b.md":            "",
		"deep/c.go":       "package c // naïve\n",
		"deep/d.go":       "package d",
		"deep/e":          "  spaces   around  \n\n",
		".hidden":         "not counted",
		".git/also/f.txt": "not counted",
	} {
		path = filepath.Join(dir, filepath.FromSlash(path))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	return dir
}

func start(t *testing.T, c *counter) *cairn.Engine {
	t.Helper()
	st, err := open.URL(t.Context(), "sqlite::memory:")
	require.NoError(t, err)
	eng, err := cairn.New(t.Context(), st, c.workflow)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond) // steps may hang
		defer cancel()
		_ = eng.Stop(ctx)
		require.NoError(t, st.Close())
	})
	return eng
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func TestAllFilesAreCounted(t *testing.T) {
	t.Parallel()
	c := newCounter(0, 100, 2)
	eng := start(t, c)
	r, err := c.workflow.Start(t.Context(), eng, folder(t))
	require.NoError(t, err)
	report, err := r.Result(within(t))
	require.NoError(t, err)
	require.Equal(t, Report{Kinds: []Kind{
		{Ext: ".go", Files: 2, Lines: 1, Words: 6, Bytes: 29},
		{Ext: ".md", Files: 2, Lines: 2, Words: 3, Bytes: 14},
		{Ext: "(none)", Files: 1, Lines: 2, Words: 2, Bytes: 21},
	}}, report)
	counted := map[string]int{}
	for event, err := range eng.Run(r.ID()).History(t.Context()) {
		require.NoError(t, err)
		if event.Type == "step_completed" {
			counted[event.Key]++
		}
	}
	require.Equal(t, map[string]int{
		"list": 1, "add up": 1, "file@a.md/count": 1, "file@b.md/count": 1, "file@deep%2Fc.go/count": 1, "file@deep%2Fd.go/count": 1, "file@deep%2Fe/count": 1,
	}, counted, "each file has a step, whose key is its path")
}

func TestMost(t *testing.T) {
	t.Parallel()
	paths, err := newCounter(0, 2, 1).list(t.Context(), folder(t))
	require.NoError(t, err)
	require.Equal(t, []string{"a.md", "b.md"}, paths)
}

func TestBadFileIsLeftOut(t *testing.T) {
	t.Parallel()
	_, err := newCounter(0, 1, 1).countFile(t.Context(), File{Dir: t.TempDir(), Path: "gone"})
	require.ErrorIs(t, err, errUnreadable)
	report := addUp([]Count{{Path: "a.md", Words: 1}, {Path: "gone", Problem: "unreadable"}})
	require.Equal(t, []Kind{{Ext: ".md", Files: 1, Words: 1}}, report.Kinds)
	require.Equal(t, []string{"gone: unreadable"}, report.Skipped)
}

func TestProgressIsSeen(t *testing.T) {
	t.Parallel()
	c := newCounter(time.Hour, 100, 3)
	eng := start(t, c)
	r, err := c.workflow.Start(t.Context(), eng, folder(t))
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		info, err := r.Describe(t.Context())
		require.NoError(t, err)
		seen := 0
		for _, w := range info.Waits {
			if w.Kind == "step" && w.Note != "" {
				seen++
			}
		}
		require.LessOrEqual(t, seen, 3, "no more at the same time than were wanted")
		return seen == 3
	}, patience, 5*time.Millisecond)
}

func TestProgram(t *testing.T) {
	t.Parallel()
	dir, db := folder(t), filepath.Join(t.TempDir(), "files.db")
	for range 2 { // it begins anew when it has ended
		var out bytes.Buffer
		require.NoError(t, run(within(t), []string{"-db", db, "-dir", dir, "-pace", "0"}, &out))
		require.Contains(t, out.String(), "Counting in ")
		require.Contains(t, out.String(), "✓ count deep/c.go")
		require.Regexp(t, `all +5 +5 +11 +64\n`, out.String())
	}
}

// trigger does something when a text is written.
type trigger struct {
	bytes.Buffer
	text string
	do   func()
}

func (w *trigger) Write(b []byte) (int, error) {
	n, err := w.Buffer.Write(b)
	if bytes.Contains(w.Bytes(), []byte(w.text)) {
		w.do()
	}
	return n, err
}

// TestProgramIsInterrupted stops the program when it has counted a file, which is empty, and is about to count others. The file is not counted again.
func TestProgramIsInterrupted(t *testing.T) {
	t.Parallel()
	dir, db := folder(t), filepath.Join(t.TempDir(), "files.db")
	ctx, interrupt := context.WithCancel(within(t))
	out := &trigger{text: "✓ count b.md", do: interrupt}
	require.NoError(t, run(ctx, []string{"-db", db, "-dir", dir, "-pace", "1h"}, out))
	require.Contains(t, out.String(), "Stopped.")

	out = &trigger{text: "Counting goes on", do: func() {}}
	require.NoError(t, run(within(t), []string{"-db", db, "-dir", dir, "-pace", "0"}, out))
	require.Contains(t, out.String(), "Counting goes on")
	require.Regexp(t, `all +5 +5 +11 +64\n`, out.String())

	st, err := open.URL(t.Context(), db)
	require.NoError(t, err)
	eng, err := cairn.New(t.Context(), st)
	require.NoError(t, err)
	page, err := eng.List(t.Context(), cairn.Filter{})
	require.NoError(t, err)
	require.Len(t, page.Runs, 1)
	begun := map[string]int{}
	for event, err := range eng.Run(page.Runs[0].ID).History(t.Context()) {
		require.NoError(t, err)
		if event.Type == "step_started" {
			begun[event.Key]++
		}
	}
	require.Equal(t, 1, begun["file@b.md/count"], "it was counted before")
	require.Equal(t, 2, begun["file@a.md/count"], "it was under way")
	require.NoError(t, eng.Stop(t.Context()))
	require.NoError(t, st.Close())
}
