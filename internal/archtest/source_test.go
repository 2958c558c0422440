package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// house is this module's path.
const house = "github.com/cairn-workflow/cairn"

// source is the tree that rules look at.
type source struct {
	positions *token.FileSet
	code      []codeFile
	text      []textFile
}

// codeFile is one Go file.
type codeFile struct {
	path      string // below the root of the module, with slashes
	tree      *ast.File
	lines     int
	test      bool
	generated bool
}

// textFile is any file that is not binary.
type textFile struct {
	path    string
	content string
}

// dir is the folder of the file, "." for the root package.
func (f codeFile) dir() string { return path.Dir(f.path) }

// imports lists the packages that the file imports.
func (f codeFile) imports() []string {
	var paths []string
	for _, spec := range f.tree.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err == nil {
			paths = append(paths, imported)
		}
	}
	return paths
}

// at names a place in a file.
func (s source) at(node ast.Node) string {
	position := s.positions.Position(node.Pos())
	return fmt.Sprintf("%s:%d", position.Filename, position.Line)
}

// production lists the files that are neither tests nor generated.
func (s source) production() []codeFile {
	var files []codeFile
	for _, file := range s.code {
		if !file.test && !file.generated {
			files = append(files, file)
		}
	}
	return files
}

// maxText is the size above which a file counts as data and is not read.
const maxText = 1 << 20

// readSource reads the tree of the module, without other modules in it, dependencies and what the build made.
func readSource(root fs.FS) (source, error) {
	read := source{positions: token.NewFileSet()}
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if skipped(root, name) {
				return fs.SkipDir
			}
			return nil
		}
		return read.add(root, name, entry)
	})
	return read, err
}

// skipped tells which folders are no part of the source.
func skipped(root fs.FS, name string) bool {
	switch path.Base(name) {
	case ".git", ".tools", "bin", "node_modules", "dist", ".idea", ".vscode":
		return true
	}
	_, err := fs.Stat(root, path.Join(name, "go.mod"))
	return name != "." && err == nil
}

func (s *source) add(root fs.FS, name string, entry fs.DirEntry) error {
	info, err := entry.Info()
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxText {
		return err
	}
	content, err := fs.ReadFile(root, name)
	if err != nil || bytes.IndexByte(content, 0) >= 0 {
		return err
	}
	s.text = append(s.text, textFile{path: name, content: string(content)})
	if path.Ext(name) != ".go" || strings.Contains(name, "testdata/") {
		return nil
	}
	tree, err := parser.ParseFile(s.positions, name, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	s.code = append(s.code, codeFile{
		path:      name,
		tree:      tree,
		lines:     bytes.Count(content, []byte("\n")),
		test:      strings.HasSuffix(name, "_test.go"),
		generated: ast.IsGenerated(tree),
	})
	return nil
}

// moduleRoot is the folder of the module's go.mod.
func moduleRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		require.NotEqual(t, parent, dir, "no go.mod above the test")
		dir = parent
	}
}

// under reports whether a folder or import path is parent or lies below it.
func under(name, parent string) bool {
	return name == parent || strings.HasPrefix(name, parent+"/")
}

// underAny reports whether it lies under one of the parents.
func underAny(name string, parents ...string) bool {
	for _, parent := range parents {
		if under(name, parent) {
			return true
		}
	}
	return false
}

// inHouse returns the folder of an import of this module.
func inHouse(imported string) (string, bool) {
	if imported == house {
		return ".", true
	}
	return strings.CutPrefix(imported, house+"/")
}
