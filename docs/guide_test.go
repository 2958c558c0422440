package docs_test

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// snippetImports are what the programs in the documentation import.
var snippetImports = []string{
	"github.com/cairn-workflow/cairn", "github.com/cairn-workflow/cairn/cairnerr", "github.com/cairn-workflow/cairn/cairntest", "github.com/cairn-workflow/cairn/flow", "github.com/cairn-workflow/cairn/store/open",
	"github.com/cairn-workflow/cairn/store/postgres", "github.com/cairn-workflow/cairn/store/sqlite", "github.com/stretchr/testify/require",
	"context", "errors", "fmt", "os", "os/signal", "sync/atomic", "syscall", "testing", "time",
}

// compiled returns an importer for what snippets import, made of what the go command has compiled.
func compiled(t *testing.T, fset *token.FileSet) types.Importer {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}, snippetImports...)...)
	output, err := list.Output()
	require.NoError(t, err)
	files := map[string]string{}
	for line := range strings.Lines(string(output)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[path] = file
	}
	return importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		if files[path] == "" {
			return nil, fs.ErrNotExist
		}
		return os.Open(files[path])
	})
}

var goBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")

// TestSnippets compiles the programs of the guide.
func TestSnippets(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("guide/*.md")
	require.NoError(t, err)
	require.Greater(t, len(pages), 12)
	fset := token.NewFileSet()
	config := types.Config{Importer: compiled(t, fset)}
	for _, page := range append(pages, "concepts.md") {
		content, err := os.ReadFile(page)
		require.NoError(t, err)
		blocks := goBlock.FindAllStringSubmatch(string(content), -1)
		require.True(t, len(blocks) > 0 || page == filepath.Join("guide", "README.md"), "%s has no program", page)
		for _, block := range blocks {
			require.True(t, strings.HasPrefix(block[1], "package "), "%s: a program is a whole file", page)
			file, err := parser.ParseFile(fset, page, block[1], parser.SkipObjectResolution)
			require.NoError(t, err, page)
			_, err = config.Check("snippet", fset, []*ast.File{file}, nil)
			require.NoError(t, err, page)
		}
	}
}

// TestGuide checks that each page has the same parts, and that the errors that it shows are those that the source has.
func TestGuide(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("guide/*.md")
	require.NoError(t, err)
	known := messages(t)
	shown := 0
	for _, page := range pages {
		if filepath.Base(page) == "README.md" {
			continue
		}
		content, err := os.ReadFile(page)
		require.NoError(t, err)
		rest := string(content)
		for _, part := range []string{"\n## Promised\n", "\n## Limits\n", "\n## Mistakes\n", "\n## See also\n"} {
			_, after, found := strings.Cut(rest, part)
			require.True(t, found, "%s has no part %q, or not in this place", page, strings.TrimSpace(part))
			rest = after
		}
		_, mistakes, _ := strings.Cut(string(content), "\n## Mistakes\n")
		mistakes, _, _ = strings.Cut(mistakes, "\n## See also\n")
		for _, found := range shownError.FindAllStringSubmatch(mistakes, -1) {
			shown++
			message := found[2]
			require.True(t, message == "…" || known.has(message), "%s: no such error: %s", page, message)
		}
		for _, name := range exampleName.FindAllStringSubmatch(rest, -1) {
			require.Contains(t, exampleFuncs(t), name[1], page)
		}
	}
	require.Greater(t, shown, 40)
}

var (
	shownError  = regexp.MustCompile("\\| `([a-z_]+): ([^`]+)` \\|")
	exampleName = regexp.MustCompile("`(Example[A-Za-z_]+)`")
)

// exampleFuncs returns the names of the examples of the root package.
func exampleFuncs(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../example_*_test.go")
	require.NoError(t, err)
	var names []string
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, found := range regexp.MustCompile(`(?m)^func (Example\w+)\(`).FindAllStringSubmatch(string(content), -1) {
			names = append(names, found[1])
		}
	}
	return names
}

// patterns are the messages of errors in the source, with any text where a value comes in.
type patterns []*regexp.Regexp

func (p patterns) has(message string) bool {
	for _, r := range p {
		if r.MatchString(message) {
			return true
		}
	}
	return false
}

var verb = regexp.MustCompile(`%[\\.0-9]*[a-z]`) // in a text whose points are quoted

// messages reads the texts of all errors with a code in the source.
func messages(t *testing.T) patterns {
	t.Helper()
	var all patterns
	add := func(expression ast.Expr) {
		literal, ok := expression.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			return
		}
		text, err := strconv.Unquote(literal.Value)
		require.NoError(t, err)
		all = append(all, regexp.MustCompile("^"+verb.ReplaceAllString(regexp.QuoteMeta(text), "(?:.+)")+"$"))
	}
	for _, folder := range []string{".", "internal/engine", "internal/journal", "internal/store"} {
		for _, file := range parse(t, folder) {
			ast.Inspect(file, func(node ast.Node) bool {
				switch n := node.(type) {
				case *ast.CallExpr:
					name := types.ExprString(n.Fun)
					if (strings.HasSuffix(name, "Errorf") || strings.HasSuffix(name, "NewError")) && len(n.Args) > 1 {
						add(n.Args[1])
					}
				case *ast.KeyValueExpr:
					if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Message" {
						add(n.Value)
					}
				}
				return true
			})
		}
	}
	return all
}
