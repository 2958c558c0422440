package torture

import (
	"context"
	"database/sql"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/store/open"
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
	stopWorker := live("worker", workerDiaries+"0-1", Worker)
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
func findings(t *testing.T, dir string) []string {
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
	o := &orchestra{dir: dir}
	require.NoError(t, o.audit(t.Context(), st, entered))
	require.Greater(t, o.report.Runs, int64(20))
	require.Greater(t, o.report.Effects, int64(20))
	return o.report.Findings
}

// TestAuditFinds shows that the audit can fail: it finds nothing in what peaceful processes leave, and something when one fact is changed.
func TestAuditFinds(t *testing.T) {
	t.Parallel()
	dir := peace(t)
	require.Empty(t, findings(t, dir))
	worker, client := workerDiaries+"0-1", clientDiaries+"0"
	for name, plant := range map[string]struct {
		finds      string
		book       string // in which lines are changed, or removed
		lines      func(*line) bool
		as         func(*line)
		statements []string // that change the database
	}{
		"an effect is missing":                  {"was never done", worker, func(l *line) bool { return l.Says == saysEnd && l.Key == "work" }, nil, nil},
		"a step was begun after its outcome":    {"after its outcome was recorded", worker, func(l *line) bool { return l.Says == saysBegin }, func(l *line) { l.At += time.Hour.Microseconds() }, nil},
		"another idempotency key":               {"the idempotency key of", worker, func(l *line) bool { return l.Says == saysEnd }, func(l *line) { l.Idem = "step_x" }, nil},
		"an effect of nobody":                   {"does not exist", worker, func(l *line) bool { return l.Says == saysBegin }, func(l *line) { l.Run = "wrun_x" }, nil},
		"an effect without a step":              {"has no outcome", worker, func(l *line) bool { return l.Says == saysBegin && l.Attempt == 1 }, func(l *line) { l.Key = "work#99" }, nil},
		"an acknowledged start is gone":         {"which is not there", client, func(l *line) bool { return l.Says == saysTold && l.Ask == askStart }, func(l *line) { l.Run = "wrun_x" }, nil},
		"a refused start is there":              {"was refused", client, func(l *line) bool { return l.Says == saysTold && l.Ask == askStart }, func(l *line) { l.Says, l.Code = saysRefused, "disk_full" }, nil},
		"an acknowledged send was not received": {"was not received", client, func(l *line) bool { return l.Says == saysTold && l.Ask == askSend }, func(l *line) { l.Key = "x" }, nil},
		"something nobody sent":                 {"which nobody sent", client, func(l *line) bool { return l.Says == saysAsk && l.Ask == askSend }, nil, nil},
		"a run nobody asked for":                {"nobody asked for it", client, func(l *line) bool { return l.Ask == askStart && l.Order == "0-3" }, nil, nil},
		"a client was told of another end":      {"a client was told", client, func(l *line) bool { return l.Says == saysEnded }, func(l *line) { l.Text += "!" }, nil},
		"something a client found wrong":        {"a client says", client, func(l *line) bool { return l.Says == saysEnded }, func(l *line) { l.Says = saysWrong }, nil},
		"an acknowledged fork is gone":          {"the fork of", client, func(l *line) bool { return l.Says == saysTold && l.Ask == askFork }, func(l *line) { l.Run = "wrun_x" }, nil},
		"an acknowledged note is gone":          {"a note on", client, func(l *line) bool { return l.Says == saysTold && l.Ask == askStart }, func(l *line) { l.Ask = askNote }, nil},
		"an acknowledged attribute is gone":     {"an attribute of", client, func(l *line) bool { return l.Says == saysTold && l.Ask == askStart }, func(l *line) { l.Ask = askMark }, nil},
		"an entry without its run":              {finds: "was entered with its start", statements: []string{`update torture_ledger set run = 'wrun_x'`}},
		"a run without its entry":               {finds: "was not entered", statements: []string{`delete from torture_ledger`}},
		"a run is not found":                    {finds: "are found by the attribute", statements: []string{`delete from cairn_attributes`}},
		"a fork keeps what nobody has done": {finds: "keeps an outcome", statements: []string{
			`update cairn_events set key = 'work#77' where key like 'work%' and run in (select run from cairn_attributes where key like '%forked_from')`,
		}},
		"a view is wrong": {finds: "differs from the fold", statements: []string{
			`update cairn_runs set completed_at = completed_at + 1 where no = 1`,
		}},
		"a run goes on": {finds: "has not ended", statements: []string{
			`delete from cairn_events where run = 1 and seq = (select end_seq from cairn_runs where no = 1)`,
			`update cairn_runs set status = 1, completed_at = null, end_seq = null where no = 1`,
		}},
		"a chunk is gone": {finds: "its stream holds", statements: []string{
			`delete from cairn_chunks where rowid in (select max(rowid) from cairn_chunks group by stream)`,
		}},
	} {
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
			found := findings(t, copied)
			require.True(t, slices.ContainsFunc(found, func(f string) bool { return strings.Contains(f, plant.finds) }), "%q not in %q", plant.finds, found)
		})
	}
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
