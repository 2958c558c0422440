package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	testName = regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9_]+)((?:/[^`]+)?)`")
	testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
)

// testFiles returns the files that have a test, by its name, and the text of all tests of a folder.
func testFiles(t *testing.T) (files map[string][]string, texts map[string]string) {
	t.Helper()
	files, texts = map[string][]string{}, map[string]string{}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "testdata" || entry.Name() == "node_modules" || strings.HasPrefix(entry.Name(), ".") && entry.Name() != ".."):
			return fs.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))
		for _, found := range testFunc.FindAllStringSubmatch(string(content), -1) {
			files[found[1]] = append(files[found[1]], name)
		}
		texts[filepath.Dir(name)] += string(content)
		return nil
	})
	require.NoError(t, err)
	return files, texts
}

// TestPromises checks that each test that promises.md names is there: in the file that the last table says, and with its part if one is named.
func TestPromises(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("promises.md")
	require.NoError(t, err)
	promises, where, found := strings.Cut(string(page), "\n## Where the tests are\n")
	require.True(t, found)
	files, texts := testFiles(t)
	listed := map[string]string{}
	for line := range strings.SplitSeq(where, "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if len(cells) != 2 || !strings.HasPrefix(cells[0], "`") {
			continue
		}
		file := strings.Trim(cells[0], "`")
		for _, name := range testName.FindAllStringSubmatch(cells[1], -1) {
			require.NotContains(t, listed, name[1], "listed twice")
			require.Contains(t, files[name[1]], file, "%s is not in %s", name[1], file)
			listed[name[1]] = file
		}
	}
	named := map[string]bool{}
	for _, name := range testName.FindAllStringSubmatch(promises, -1) {
		file := listed[name[1]]
		require.NotEmpty(t, file, "%s is named, and not listed with its file", name[1])
		named[name[1]] = true
		if part := strings.ReplaceAll(strings.TrimPrefix(name[2], "/"), "_", " "); part != "" {
			require.Contains(t, texts[filepath.Dir(file)], `"`+part+`"`, "%s has no part %q", name[1], part)
		}
	}
	require.Greater(t, len(named), 60)
	for name := range listed {
		require.True(t, named[name], "%s is listed, and no promise names it", name)
	}
	for line := range strings.Lines(promises) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") || strings.HasPrefix(line, "| situation |") || strings.HasPrefix(line, "| request |") {
			continue
		}
		for _, cell := range cells[1:] {
			bare := strings.TrimSpace(cell) == "none"
			require.True(t, bare || testName.MatchString(cell) || strings.Contains(cell, "**not promised**"), "a cell without a test: %s", cell)
		}
	}
}

var (
	link   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	fenced = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
)

// TestLinks checks that what pages link to in this repository is there.
func TestLinks(t *testing.T) {
	t.Parallel()
	var pages []string
	for _, pattern := range []string{"*.md", "guide/*.md", "../*.md"} {
		found, err := filepath.Glob(pattern)
		require.NoError(t, err)
		pages = append(pages, found...)
	}
	require.Greater(t, len(pages), 10)
	for _, page := range pages {
		content, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, l := range link.FindAllStringSubmatch(fenced.ReplaceAllString(string(content), ""), -1) {
			target, anchor, _ := strings.Cut(l[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			file := page
			if target != "" {
				file = filepath.Join(filepath.Dir(page), filepath.FromSlash(target))
			}
			_, err := os.Stat(file)
			require.NoError(t, err, "%s links to %s", page, l[1])
			if anchor == "" || !strings.HasSuffix(file, ".md") {
				continue
			}
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Contains(t, anchors(string(text)), anchor, "%s links to %s", page, l[1])
		}
	}
}

// anchors returns the names of a page's headings, as they are linked to.
func anchors(page string) []string {
	var names []string
	for line := range strings.Lines(page) {
		if title := strings.TrimLeft(line, "#"); title != line {
			title = strings.ToLower(strings.TrimSpace(title))
			title = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(title, "")
			names = append(names, strings.ReplaceAll(title, " ", "-"))
		}
	}
	return names
}
