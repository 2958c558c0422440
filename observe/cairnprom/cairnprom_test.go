package cairnprom_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/internal/metrics"
	"github.com/cairn-workflow/cairn/internal/pgcluster/pgtest"
	"github.com/cairn-workflow/cairn/observe"
	"github.com/cairn-workflow/cairn/observe/cairnprom"
	"github.com/cairn-workflow/cairn/store/open"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var errDeclined = cairn.NewError("declined", "the card was declined")

// onEveryStore runs a test on each database, with an engine.
func onEveryStore(t *testing.T, c *cairnprom.Collector, test func(t *testing.T, begin func(...cairn.Definition) *cairn.Engine)) {
	t.Helper()
	for name, url := range map[string]func(t *testing.T) string{
		"postgres": func(t *testing.T) string { t.Helper(); return pgtest.URL(t) },
		"sqlite":   func(t *testing.T) string { t.Helper(); return filepath.Join(t.TempDir(), "x.db") },
	} {
		t.Run(name, func(t *testing.T) {
			address := url(t)
			test(t, func(workflows ...cairn.Definition) *cairn.Engine {
				st, err := open.URL(t.Context(), address)
				require.NoError(t, err)
				e, err := cairn.NewWith(t.Context(), st, cairn.Config{Observe: c.Hooks(), Poll: 20 * time.Millisecond, MaxWaiting: -1}, workflows...)
				require.NoError(t, err)
				t.Cleanup(func() { stop(e); _ = st.Close() })
				return e
			})
		})
	}
}

func stop(e *cairn.Engine) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = e.Stop(ctx)
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	c := cairnprom.New()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(c))
	onEveryStore(t, c, func(t *testing.T, begin func(...cairn.Definition) *cairn.Engine) {
		charge := cairn.NewStep("charge", func(ctx context.Context, n int) (int, error) {
			if cairn.Attempt(ctx) == 1 {
				return 0, errDeclined
			}
			return n, nil
		}).Retry(cairn.RetryPolicy{Attempts: 2})
		approved := cairn.NewHook[int]("approved").Token("the token")
		var looks atomic.Int32
		arrived := cairn.NewPoll("arrived", time.Millisecond, func(_ context.Context, n int) (int, bool, error) { return n, looks.Add(1) == 3, nil })
		wf := cairn.NewWorkflow("checkout "+t.Name()[len("TestMetrics/"):], func(ctx cairn.Context, n int) (int, error) {
			if _, err := charge.Do(ctx, n); err != nil {
				return 0, err
			}
			if _, err := approved.Wait(ctx); err != nil {
				return 0, err
			}
			if _, err := arrived.Wait(ctx, n); err != nil {
				return 0, err
			}
			return 0, errors.New("no mail server")
		})
		e := begin(wf)
		run, err := wf.Start(t.Context(), e, 1, cairn.Key("k"))
		require.NoError(t, err)
		_, err = wf.Start(t.Context(), e, 1, cairn.Key("k"))
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			return cairn.NewHook[int]("sent").Send(t.Context(), e, "the token", 1, cairn.Key("once")) == nil
		}, time.Minute, time.Millisecond)
		_, err = run.Result(t.Context())
		require.Error(t, err)
		stop(e)
		expected := strings.ReplaceAll(`
# HELP cairn_runs_started_total Runs that this process started, children too.
# TYPE cairn_runs_started_total counter
cairn_runs_started_total{workflow="WF"} 1
# HELP cairn_runs_ended_total Runs whose end this process wrote.
# TYPE cairn_runs_ended_total counter
cairn_runs_ended_total{code="error",status="failed",workflow="WF"} 1
# HELP cairn_step_attempts_total Calls of step functions.
# TYPE cairn_step_attempts_total counter
cairn_step_attempts_total{code="",outcome="completed",step="charge",workflow="WF"} 1
cairn_step_attempts_total{code="declined",outcome="retrying",step="charge",workflow="WF"} 1
# HELP cairn_poll_looks_total Calls of the checks of polls.
# TYPE cairn_poll_looks_total counter
cairn_poll_looks_total{code="",found="answer",poll="arrived",workflow="WF"} 1
cairn_poll_looks_total{code="",found="nothing",poll="arrived",workflow="WF"} 2
# HELP cairn_poll_look_duration_seconds Time that a call of a poll's check took.
# TYPE cairn_poll_look_duration_seconds histogram
cairn_poll_look_duration_seconds{found="nothing",poll="arrived",workflow="WF"}_count 2
# HELP cairn_hooks_received_total Values that workflows have got through their hooks.
# TYPE cairn_hooks_received_total counter
cairn_hooks_received_total{hook="approved",workflow="WF"} 1
`, "WF", wf.Name())
		for line := range strings.Lines(expected) {
			if !strings.HasPrefix(line, "#") && strings.TrimSpace(line) != "" {
				require.Contains(t, scrape(t, registry), line)
			}
		}
	})
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	require.Empty(t, problems)
	text := scrape(t, registry)
	require.Contains(t, text, `cairn_runs_active{namespace="default"} 0`)
	require.NotContains(t, text, "wrun_")
	require.Contains(t, text, "cairn_commit_duration_seconds_count ")
}

// scrape returns what Prometheus would read.
func scrape(t *testing.T, registry *prometheus.Registry) string {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	var out strings.Builder
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := make([]string, 0, len(m.GetLabel()))
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			name := f.GetName()
			if len(labels) > 0 {
				name += "{" + strings.Join(labels, ",") + "}"
			}
			switch {
			case m.GetCounter() != nil:
				fmt.Fprintf(&out, "%s %g\n", name, m.GetCounter().GetValue())
			case m.GetGauge() != nil:
				fmt.Fprintf(&out, "%s %g\n", name, m.GetGauge().GetValue())
			case m.GetHistogram() != nil:
				fmt.Fprintf(&out, "%s_count %d\n", name, m.GetHistogram().GetSampleCount())
			}
		}
	}
	return out.String()
}

// Everything in the list exists, and nothing else, with its kind and labels.
func TestTheListIsComplete(t *testing.T) {
	t.Parallel()
	c := cairnprom.New()
	descs := make(chan *prometheus.Desc, 100)
	c.Describe(descs)
	close(descs)
	var got []string
	for d := range descs {
		got = append(got, d.String())
	}
	require.Len(t, got, len(metrics.All()))
	for _, m := range metrics.All() {
		require.Contains(t, strings.Join(got, "\n"), fmt.Sprintf("fqName: %q, help: %q", m.Prometheus, m.Help))
	}
}

// A program that makes names out of data does not fill the memory of who collects, and bytes that are no text are no reason to fail.
func TestLabelsAreBounded(t *testing.T) {
	t.Parallel()
	c := cairnprom.New()
	h := c.Hooks()
	for i := range metrics.MaxValues + 50 {
		_, end := h.Attempt(t.Context(), observe.Attempt{Run: observe.Run{Workflow: "w"}, Step: fmt.Sprint("step ", i)})
		end(observe.AttemptEnd{Outcome: observe.OutcomeFailed, Code: "bad \xff"})
	}
	h.RunParked(observe.RunParked{Run: observe.Run{Workflow: "w"}, Code: "mismatch"})
	h.RunEvicted(observe.Run{Workflow: "w"})
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(c))
	n, err := testutil.GatherAndCount(registry, metrics.StepAttempts.Prometheus)
	require.NoError(t, err)
	require.Equal(t, metrics.MaxValues+1, n)
	require.Contains(t, scrape(t, registry), `cairn_step_attempts_total{code="bad ?",outcome="failed",step="other",workflow="w"} 50`)
	require.Contains(t, scrape(t, registry), `cairn_runs_parked_total{code="mismatch",workflow="w"} 1`)
	require.Contains(t, scrape(t, registry), `cairn_runs_evicted_total{workflow="w"} 1`)
}
