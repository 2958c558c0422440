package docs_test

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// retired are words and names that users must not meet any more, with what to write instead.
var retired = []struct{ pattern, instead string }{
	{`\bStartKey\(`, "cairn.Key"},
	{`\bMapKey\b`, "cairn.Map with cairn.KeyBy"},
	{`\b(GoKey|ChildKey)\b`, "cairn.Key"},
	{`\b(Step|Poll)\.Key\b`, "cairn.Key"},
	{`\.Key\([^()]*\)\.(Do|Wait)\(`, "the option cairn.Key"},
	{`\bChildElsewhere\b`, "cairn.Elsewhere"},
	{`\bChildAttributes\b`, "cairn.Attributes"},
	{`\bcairn\.Some\b|\bSome\(|` + "`Some`", "cairn.FirstN"},
	{`\bcairn\.(Send|Ask)\b`, "Hook.Send, Hook.SendTo, RequestHook.Ask, RequestHook.AskRun"},
	{`\bReceiveWithin\b`, "Receive with cairn.Timeout"},
	{`\bReceiveRequest\b`, "cairn.NewRequestHook, and its Receive"},
	{`\bPoll\.Within\b|\)\.Within\(`, "Timeout"},
	{`\b(cairn|Run|run|Engine|eng)\.Push\b|` + "`Push`", "PollNow"},
	{`\bcairn\.(From|Last|Settled|Stored)\b`, "cairn.ReadFrom, ReadLast, ReadSettled, ReadStored"},
	{
		`\b(Engine|eng)\.(Annotate|Annotations|Cancel|Delete|Describe|Export|Fork|History|Logs|Pause|Resume|SetAttributes|Terminate)\b`,
		"the method of eng.Run(id), a RunHandle",
	},
	{`(?i)\bhow-manieth\b`, "the n-th, or which use of it"},
	{`(?i)\bheed(s|ed|ing)?\b|\bLeaseHeed\b`, "acknowledge"},
	{`\bparkForGood\b`, "park"},
	{`(?i)\bwho finds that\b`, "a sentence with a subject: if …, the caller …"},
}

// retiredOnPages are words that must not come back to pages and go doc.
var retiredOnPages = []struct{ pattern, instead string }{}

// shownText is something that users read, with where it is.
type shownText struct{ where, text string }

// TestRetiredWords refuses words of the past in what users read: pages, go doc of package cairn, and the texts of the command line.
func TestRetiredWords(t *testing.T) {
	t.Parallel()
	pages := pageTexts(t)
	require.Greater(t, len(pages), 25)
	comments := docComments(t)
	require.Greater(t, len(comments), 150)
	commands := commandTexts(t)
	require.Greater(t, len(commands), 100)
	onPages := slices.Concat(pages, comments)
	everywhere := slices.Concat(onPages, commands)
	for _, word := range retired {
		refuse(t, word.pattern, word.instead, everywhere)
	}
	for _, word := range retiredOnPages {
		refuse(t, word.pattern, word.instead, onPages)
	}
}

// refuse fails the test for each text that has a word.
func refuse(t *testing.T, pattern, instead string, texts []shownText) {
	t.Helper()
	word := regexp.MustCompile(pattern)
	for _, shown := range texts {
		for n, line := range strings.Split(shown.text, "\n") {
			if found := word.FindString(line); found != "" {
				t.Errorf("%s, line %d of the text: %q is retired; write: %s", shown.where, n+1, found, instead)
			}
		}
	}
}

// breaking is the part of the changelog that names what is gone.
var breaking = regexp.MustCompile(`(?ms)^### Changed \(breaking\)$.*?^### `)

// pageTexts returns the pages that users read.
func pageTexts(t *testing.T) []shownText {
	t.Helper()
	paths := []string{filepath.Join("..", "README.md"), filepath.Join("..", "SECURITY.md"), filepath.Join("..", "CHANGELOG.md")}
	for _, pattern := range []string{"*.md", "guide/*.md"} {
		found, err := filepath.Glob(pattern)
		require.NoError(t, err)
		paths = append(paths, found...)
	}
	var all []shownText
	for _, path := range paths {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		text := string(content)
		if filepath.Base(path) == "CHANGELOG.md" {
			text = breaking.ReplaceAllStringFunc(text, func(part string) string { return strings.Repeat("\n", strings.Count(part, "\n")) })
		}
		all = append(all, shownText{where: path, text: text})
	}
	return all
}

// docComments returns the comments that go doc shows of package cairn: those of the package, of exported names and of exported fields.
func docComments(t *testing.T) []shownText {
	t.Helper()
	var all []shownText
	add := func(name string, comments ...*ast.CommentGroup) {
		for _, c := range comments {
			if c != nil {
				all = append(all, shownText{where: "go doc of " + name, text: c.Text()})
			}
		}
	}
	for _, file := range parseWithComments(t, ".") {
		add("package cairn", file.Doc)
		ast.Inspect(file, func(node ast.Node) bool {
			switch n := node.(type) {
			case *ast.FuncDecl:
				if n.Name.IsExported() {
					add(n.Name.Name, n.Doc)
				}
				return false
			case *ast.GenDecl:
				add("a group", n.Doc)
			case *ast.TypeSpec:
				if !n.Name.IsExported() {
					return false
				}
				add(n.Name.Name, n.Doc, n.Comment)
			case *ast.ValueSpec:
				add(n.Names[0].Name, n.Doc, n.Comment)
			case *ast.Field:
				if len(n.Names) > 0 && n.Names[0].IsExported() {
					add(n.Names[0].Name, n.Doc, n.Comment)
				}
			}
			return true
		})
	}
	return all
}

// commandTexts returns the texts in the source of the command line.
func commandTexts(t *testing.T) []shownText {
	t.Helper()
	var all []shownText
	for _, file := range parseWithComments(t, "internal/cli") {
		ast.Inspect(file, func(node ast.Node) bool {
			if literal, ok := node.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				text, err := strconv.Unquote(literal.Value)
				require.NoError(t, err)
				all = append(all, shownText{where: "a text of internal/cli: " + strconv.Quote(text[:min(40, len(text))]), text: text})
			}
			return true
		})
	}
	return all
}
