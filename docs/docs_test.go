// Package docs_test holds the tables of the documentation against the source.
package docs_test

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/cairnvet"
	"github.com/cairn-workflow/cairn/internal/export"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/metrics"
)

// row is one line of a table, without its bars.
type row []string

// tables returns the rows of all tables of a page by the name that stands in the given column, in backquotes.
func tables(t *testing.T, page string, column int) map[string]row {
	t.Helper()
	content, err := os.ReadFile(page)
	require.NoError(t, err)
	rows := map[string]row{}
	for line := range strings.Lines(string(content)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(line, "|") || len(cells) <= column {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		name, quoted := strings.CutPrefix(cells[column], "`")
		if !quoted {
			continue // the head of the table
		}
		name = strings.TrimSuffix(name, "`")
		require.NotContains(t, rows, name, "listed twice")
		rows[name] = cells
	}
	return rows
}

// parse reads the files of a folder that are not tests, without their comments.
func parse(t *testing.T, folder string) []*ast.File {
	t.Helper()
	return parseFiles(t, folder, parser.SkipObjectResolution)
}

// parseWithComments reads the files of a folder that are not tests, with their comments.
func parseWithComments(t *testing.T, folder string) []*ast.File {
	t.Helper()
	return parseFiles(t, folder, parser.SkipObjectResolution|parser.ParseComments)
}

func parseFiles(t *testing.T, folder string, mode parser.Mode) []*ast.File {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(folder), "*.go"))
	require.NoError(t, err)
	require.NotEmpty(t, names)
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, mode)
		require.NoError(t, err)
		files = append(files, file)
	}
	return files
}

// constants returns the constants of a folder with the type that is written beside them and their values, as source.
func constants(t *testing.T, folder string) map[string]*ast.ValueSpec {
	t.Helper()
	found := map[string]*ast.ValueSpec{}
	for _, file := range parse(t, folder) {
		for _, declaration := range file.Decls {
			group, ok := declaration.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				continue
			}
			for _, spec := range group.Specs {
				if value, ok := spec.(*ast.ValueSpec); ok && len(value.Names) == 1 && len(value.Values) == 1 {
					found[value.Names[0].Name] = value
				}
			}
		}
	}
	return found
}

func TestErrors(t *testing.T) {
	t.Parallel()
	rows := tables(t, "errors.md", 0)
	codes := 0
	for name, spec := range constants(t, "cairnerr") {
		if kind, ok := spec.Type.(*ast.Ident); !ok || kind.Name != "Code" {
			continue
		}
		codes++
		literal, ok := spec.Values[0].(*ast.BasicLit)
		require.True(t, ok, name)
		code, err := strconv.Unquote(literal.Value)
		require.NoError(t, err)
		require.NotNil(t, rows[code], "%s is not in errors.md", name)
		require.Len(t, rows[code], 4, "code, status, meaning, what to do")
		require.Equal(t, strconv.Itoa(cairnerr.Code(code).Status()), rows[code][1], "the status of %s", code)
		require.NotEmpty(t, rows[code][2], code)
		require.NotEmpty(t, rows[code][3], code)
	}
	require.Greater(t, codes, 30)
	require.Len(t, rows, codes, "errors.md has codes that do not exist")
}

func TestVetRules(t *testing.T) {
	t.Parallel()
	rows := tables(t, "cairnvet.md", 0)
	for _, rule := range cairnvet.Analyzers() {
		require.NotNil(t, rows[rule.Name], "%s is not in cairnvet.md", rule.Name)
		require.Len(t, rows[rule.Name], 4, "rule, what it finds, why, what to write instead")
	}
	require.Len(t, rows, len(cairnvet.Analyzers()), "cairnvet.md has rules that do not exist")
}

// The table of metrics has what is measured, under both names, with kinds, labels and what it is.
func TestMetrics(t *testing.T) {
	t.Parallel()
	rows := tables(t, "observability.md", 0)
	for name := range rows {
		if !strings.HasPrefix(name, "cairn_") {
			delete(rows, name) // of another table
		}
	}
	for _, m := range metrics.All() {
		labels := strings.Join(m.Labels, ", ")
		if labels == "" {
			labels = "–"
		}
		require.Equal(t, row{"`" + m.Prometheus + "`", "`" + m.OTel + "`", string(m.Kind), labels, m.Help}, rows[m.Prometheus])
	}
	require.Len(t, rows, len(metrics.All()), "observability.md has metrics that do not exist")
}

// limitNames are what limits are called, by folder. In the journal also those that are not exported are the users': it
// refuses what is above them.
var limitNames = map[string]*regexp.Regexp{
	"internal/engine":  regexp.MustCompile(`^max(ErrorText|Notes|Starts|Suspects)$`),
	"internal/journal": regexp.MustCompile(`^[mM]ax[A-Z]`),
	"internal/payload": regexp.MustCompile(`^Max[A-Z]`),
	"internal/store":   regexp.MustCompile(`^(Max[A-Z]|DefaultLimit$)`),
}

func TestLimits(t *testing.T) {
	t.Parallel()
	want := committerDefaults(t)
	require.Len(t, want, 4)
	for folder, limit := range limitNames {
		for name, spec := range constants(t, folder) {
			if limit.MatchString(name) {
				require.NotContains(t, want, name, "two limits have one name")
				want[name] = evaluate(t, spec.Values[0])
			}
		}
	}
	rows := tables(t, "limits.md", 3)
	for name, number := range want {
		require.NotNil(t, rows[name], "%s is not in limits.md", name)
		require.Equal(t, number, strings.ReplaceAll(strings.Fields(rows[name][2])[0], ",", ""), "the number of %s", name)
	}
	require.Len(t, rows, len(want), "limits.md has limits that do not exist")
}

// committerDefaults reads the calls def(&cfg.Name, value) of the committer's configuration.
func committerDefaults(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, file := range parse(t, "internal/commit") {
		ast.Inspect(file, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok || len(call.Args) != 2 {
				return true
			}
			function, ok := call.Fun.(*ast.Ident)
			if !ok || function.Name != "def" {
				return true
			}
			if address, ok := call.Args[0].(*ast.UnaryExpr); ok {
				if field, ok := address.X.(*ast.SelectorExpr); ok {
					found[field.Sel.Name] = evaluate(t, call.Args[1])
				}
			}
			return true
		})
	}
	return found
}

// evaluate computes a constant number. Time(n) is n.
func evaluate(t *testing.T, expression ast.Expr) string {
	t.Helper()
	if call, ok := expression.(*ast.CallExpr); ok && len(call.Args) == 1 {
		expression = call.Args[0]
	}
	value, err := types.Eval(token.NewFileSet(), nil, token.NoPos, types.ExprString(expression))
	require.NoError(t, err)
	number, exact := constant.Int64Val(constant.ToInt(value.Value))
	require.True(t, exact)
	return strconv.FormatInt(number, 10)
}

// TestExportFormat holds the reference of the format against what is written.
func TestExportFormat(t *testing.T) {
	t.Parallel()
	rows := tables(t, "export.md", 0)
	for kind := journal.EventType(1); kind.Known(); kind++ {
		row := rows[kind.String()]
		require.Len(t, row, 3, "%s is not in export.md", kind)
		text, _, _ := strings.Cut(row[1], "(")
		if _, rest, nested := strings.Cut(row[1], ")"); nested {
			text += rest
		}
		var documented []string
		for name := range strings.FieldsSeq(text) {
			documented = append(documented, strings.Trim(name, "`"))
		}
		require.Equal(t, export.Fields(kind), documented, "the fields of %s", kind)
	}
	content, err := os.ReadFile("export.md")
	require.NoError(t, err)
	require.Contains(t, string(content), "`"+export.Format+"`, version "+export.Version)
	header := reflect.TypeFor[export.Header]()
	for field := range header.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		require.Contains(t, string(content), "`"+name+"`", "a field of the header")
	}
}
