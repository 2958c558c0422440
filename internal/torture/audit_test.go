package torture

import (
	"context"
	"database/sql"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/store/open"
)

// peace lets a worker and a client work together without a blow, and returns the directory with what they leave.
func peace(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	m := member{url: "sqlite:" + filepath.Join(dir, "torture.db"), lease: 5 * time.Second, seed: 1, most: 50, rate: 200}
	live := func(role, book string, life func(context.Context, []string) error) func() {
		m.diary = filepath.Join(dir, book+diarySuffix)
		args := m.args(role)[1:]
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- life(ctx, args) }()
		return func() {
			cancel()
			require.NoError(t, <-ended)
		}
	}
	// Nobody resumes runs here, so the worker makes no mistakes.
	flawless := func(ctx context.Context, args []string) error { return worker(ctx, args, false) }
	stopWorker := live("worker", workerDiaries+"0-1", flawless)
	stopClient := live("client", clientDiaries+"0", Client)
	require.Eventually(t, func() bool {
		lines, err := readDiary(filepath.Join(dir, clientDiaries+"0"+diarySuffix))
		return err == nil && len(lines) > 400
	}, time.Minute, 10*time.Millisecond)
	stopClient()
	stopWorker()
	return dir
}

// findings audits a directory.
func findings(t *testing.T, dir string, mixed bool) []string {
	t.Helper()
	url := "sqlite:" + filepath.Join(dir, "torture.db")
	st, err := open.URL(t.Context(), url)
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	book, err := openLedger(url)
	require.NoError(t, err)
	defer func() { require.NoError(t, book.db.Close()) }()
	entered, err := book.read(t.Context())
	require.NoError(t, err)
	o := &orchestra{dir: dir, report: Report{Mixed: mixed}}
	require.NoError(t, o.audit(t.Context(), st, entered))
	require.Greater(t, o.report.Runs, int64(20))
	require.Greater(t, o.report.Effects, int64(20))
	return o.report.Findings
}

// TestAuditFinds shows that the audit can fail: it finds nothing in what peaceful processes leave, and something when one fact is changed.
func TestAuditFinds(t *testing.T) {
	t.Parallel()
	dir, rules := peace(t), auditRules(t)
	require.Empty(t, findings(t, dir, false))
	for name, plant := range plants() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			copied := t.TempDir()
			require.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
			if plant.book != "" {
				change(t, copied, plant.book, plant.lines, plant.as)
			}
			for _, statement := range plant.statements {
				execute(t, copied, statement)
			}
			want := onlyRule(t, rules, plant.finds)
			found := findings(t, copied, plant.mixed)
			require.True(t, slices.ContainsFunc(found, func(f string) bool { return ruleOf(rules, f) == want }), "%q is not the rule of any of %q", want, found)
		})
	}
}

// TestEveryRuleIsPlanted keeps it so: who adds a rule shows that it can find something.
func TestEveryRuleIsPlanted(t *testing.T) {
	t.Parallel()
	rules := auditRules(t)
	planted := map[string]bool{}
	for _, plant := range plants() {
		planted[onlyRule(t, rules, plant.finds)] = true
	}
	for _, rule := range rules {
		require.True(t, planted[rule], "no plant of TestAuditFinds is found by %q", rule)
	}
}

// unplanted are findings that are not of the audit: they tell of processes and of the server while these live, and what is left of them has nothing to change.
var unplanted = map[string]string{
	"the runs that have not ended cannot be listed: %v":    "the patrol cannot read the database",
	"%s has not ended, and cannot be described: %v":        "the patrol cannot read the database",
	"%s has not ended: %s %s, waits for %+v, error %v\n%s": "the patrol has waited long enough; the audit finds the same run again",
	"%s is parked: %v": "the patrol has met a run that nobody is to resume",
	"%s failed: %v":    "a blow could not be given",
	"%v":               "a process did not end in an orderly way",
}

// auditRules returns the formats of the findings of the audit, which it reads from the source.
func auditRules(t *testing.T) (rules []string) {
	t.Helper()
	sources, err := filepath.Glob("*.go")
	require.NoError(t, err)
	others := map[string]bool{}
	for _, source := range sources {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), source, nil, 0)
		require.NoError(t, err)
		for n := range ast.Preorder(file) {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				continue
			}
			if method, ok := call.Fun.(*ast.SelectorExpr); !ok || method.Sel.Name != "found" {
				continue
			}
			text, ok := call.Args[0].(*ast.BasicLit)
			require.True(t, ok, "%s: the format of a finding is a literal, so that a plant can name it", source)
			format, err := strconv.Unquote(text.Value)
			require.NoError(t, err)
			if unplanted[format] != "" {
				others[format] = true
				continue
			}
			require.NotContains(t, rules, format, "two rules say the same: a plant could not tell them apart")
			rules = append(rules, format)
		}
	}
	require.Len(t, others, len(unplanted), "what is not planted is there")
	require.Greater(t, len(rules), 30)
	return rules
}

// onlyRule returns the rule that a part of its format belongs to.
func onlyRule(t *testing.T, rules []string, part string) string {
	t.Helper()
	var of []string
	for _, rule := range rules {
		if strings.Contains(rule, part) {
			of = append(of, rule)
		}
	}
	require.Len(t, of, 1, "%q is part of one rule", part)
	return of[0]
}

var verb = regexp.MustCompile(`%\+?[a-z]`)

// ruleOf returns the rule that made a finding: of those whose format fits, the one that leaves least open.
func ruleOf(rules []string, finding string) (best string) {
	said := -1
	for _, rule := range rules {
		parts := verb.Split(rule, -1)
		literal := len(strings.Join(parts, ""))
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		if literal > said && regexp.MustCompile(`(?s)^`+strings.Join(parts, ".*")+`$`).MatchString(finding) {
			best, said = rule, literal
		}
	}
	return best
}

// change changes the lines of a diary that are chosen, or removes them.
func change(t *testing.T, dir, book string, chosen func(*line) bool, as func(*line)) {
	t.Helper()
	path := filepath.Join(dir, book+diarySuffix)
	lines, err := readDiary(path)
	require.NoError(t, err)
	var text []byte
	changed := 0
	for i := range lines {
		if chosen(&lines[i]) {
			if changed++; as == nil {
				continue
			}
			as(&lines[i])
		}
		one, err := json.Marshal(lines[i])
		require.NoError(t, err)
		text = append(append(text, one...), '\n')
	}
	require.NotZero(t, changed)
	require.NoError(t, os.WriteFile(path, text, 0o600))
}

func execute(t *testing.T, dir, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(dir, "torture.db"))
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	result, err := db.ExecContext(t.Context(), statement)
	require.NoError(t, err)
	n, err := result.RowsAffected()
	require.NoError(t, err)
	require.NotZero(t, n)
}
