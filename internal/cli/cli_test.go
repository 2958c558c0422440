package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/cli"
	"github.com/cairn-workflow/cairn/internal/pgcluster/pgtest"
	"github.com/cairn-workflow/cairn/internal/store/open"
)

func TestMain(m *testing.M) {
	testscript.Main(withPostgres{m}, map[string]func(){
		"cairn": func() { os.Exit(cli.Main()) },
		"seed":  seedCommand,
		"sql":   sqlCommand,
		"talk":  talkCommand,
	})
}

// withPostgres stops the server that tests have started.
type withPostgres struct{ m *testing.M }

func (w withPostgres) Run() int { return pgtest.Run(w.m) }

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("CAIRN_STORE", "")
			return nil
		},
	})
}

// onEveryStore runs a test on SQLite and on PostgreSQL.
func onEveryStore(t *testing.T, test func(t *testing.T, address string)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, filepath.Join(t.TempDir(), "app.db"))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, pgtest.URL(t))
	})
}

// terminal is a system whose output people look at.
func terminal(out, errs *bytes.Buffer, env map[string]string) *cli.System {
	var seconds atomic.Int64
	return &cli.System{
		Out: out, Err: errs, OutTerminal: true, ErrTerminal: true, Getenv: func(name string) string { return env[name] },
		Now: func() time.Time { return time.Unix(1_767_225_600+seconds.Add(1), 0) },
	}
}

func TestColourAndProgress(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "app.db")
	require.NoError(t, seed(t.Context(), path))
	args := []string{"doctor", "--store", path}

	var out, errs bytes.Buffer
	require.Equal(t, cli.ExitOK, cli.Run(t.Context(), args, terminal(&out, &errs, nil)))
	require.Contains(t, out.String(), "\x1b[32mok  \x1b[0m")
	require.Contains(t, errs.String(), "runs checked …")
	require.True(t, strings.HasSuffix(errs.String(), "\r\x1b[K"), "the line is taken away")

	for _, env := range []map[string]string{{"NO_COLOR": "1"}, {"TERM": "dumb"}} {
		out.Reset()
		require.Equal(t, cli.ExitOK, cli.Run(t.Context(), args, terminal(&out, &errs, env)))
		require.NotContains(t, out.String(), "\x1b")
	}

	system := terminal(&out, &errs, nil)
	system.OutTerminal, system.ErrTerminal = false, false
	out.Reset()
	errs.Reset()
	require.Equal(t, cli.ExitOK, cli.Run(t.Context(), args, system))
	require.NotContains(t, out.String(), "\x1b")
	require.Empty(t, errs.String())
}

func TestDoctorDoesNotChangeTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "app.db")
	require.NoError(t, seed(t.Context(), path))
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	var out, errs bytes.Buffer
	require.Equal(t, cli.ExitOK, cli.Run(t.Context(), []string{"doctor", "--store", path}, terminal(&out, &errs, nil)))
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, after)
}

// A process that was killed leaves what it wrote last in the file beside the database.
func TestDoctorAfterACrash(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "app.db")
	copied := filepath.Join(t.TempDir(), "app.db")
	db, err := open.URL(t.Context(), path)
	require.NoError(t, err)
	require.NoError(t, seed(t.Context(), path))
	for _, suffix := range []string{"", "-wal"} {
		content, err := os.ReadFile(path + suffix)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(copied+suffix, content, 0o600))
	}
	require.NoError(t, db.Close())
	wal, err := os.ReadFile(copied + "-wal")
	require.NoError(t, err)
	require.NotEmpty(t, wal)

	var out, errs bytes.Buffer
	require.Equal(t, cli.ExitOK, cli.Run(t.Context(), []string{"doctor", "--store", copied}, terminal(&out, &errs, nil)))
	require.Contains(t, out.String(), "3 runs with 21 events")
	after, err := os.ReadFile(copied + "-wal")
	require.NoError(t, err)
	require.Equal(t, wal, after)
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "app.db")
	require.NoError(t, seed(t.Context(), path))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	require.Equal(t, cli.ExitProblem, cli.Run(ctx, []string{"doctor", "--store", path}, terminal(&out, &errs, nil)))
	require.Contains(t, errs.String(), "cairn: interrupted")
	require.NotContains(t, out.String(), "FAIL")
}

func TestDoctorOnPostgres(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	doctor := func() string {
		var out, errs bytes.Buffer
		system := terminal(&out, &errs, map[string]string{"CAIRN_STORE": address})
		require.Equal(t, cli.ExitOK, cli.Run(t.Context(), []string{"doctor", "--json"}, system), out.String()+errs.String())
		var report struct {
			OK     bool
			Checks []struct{ Name, Message string }
		}
		require.NoError(t, json.Unmarshal(out.Bytes(), &report))
		require.True(t, report.OK)
		if u, err := url.Parse(address); err == nil && u.User != nil {
			if password, set := u.User.Password(); set {
				require.NotContains(t, out.String(), ":"+password+"@")
			}
		}
		return out.String()
	}
	require.Contains(t, doctor(), "no tables of Cairn's yet in ")
	require.Contains(t, doctor(), "no tables of Cairn's yet in ", "the doctor has made none")
	require.NoError(t, seed(t.Context(), address))
	report := doctor()
	require.Contains(t, report, "synchronous_commit=")
	require.Contains(t, report, `"runs": 3`)
}
