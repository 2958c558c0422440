package cairn_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/store/open"
)

// oftenLooking looks so often for what is due that no test waits for it.
const oftenLooking = 20 * time.Millisecond

// onBothStores runs a test on each database.
func onBothStores(t *testing.T, test func(t *testing.T, p *place)) {
	t.Helper()
	for _, kind := range []string{"sqlite", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(t, newPlace(t, kind))
		})
	}
}

// TestNamespacesOfOneEngine lets two tenants use the same keys and tokens at the same time, in memory and out of it.
func TestNamespacesOfOneEngine(t *testing.T) {
	t.Parallel()
	approved := cairn.NewHook[string]("approved").Token("the same for all")
	child := cairn.NewWorkflow("child", func(ctx cairn.Context, _ int) (string, error) { return cairn.NamespaceOf(ctx), nil })
	order := cairn.NewWorkflow("order", func(ctx cairn.Context, _ int) (string, error) {
		at, err := cairn.Do(ctx, "where", func(ctx context.Context) (string, error) { return cairn.NamespaceOf(ctx), nil })
		if err != nil {
			return "", err
		}
		by, err := approved.Wait(ctx)
		if err != nil {
			return "", err
		}
		if err := cairn.Sleep(ctx, 30*time.Millisecond); err != nil {
			return "", err
		}
		of, err := child.Run(ctx, 0)
		return fmt.Sprint(cairn.NamespaceOf(ctx), at, of, " by ", by), err
	})
	tenants := []string{"default", "a", "b", "later"}
	for name, waiting := range map[string]int{"kept in memory": 0, "not kept": -1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBothStores(t, func(t *testing.T, p *place) {
				e := p.engine(cairn.Config{Poll: oftenLooking, Namespaces: []string{cairn.AllNamespaces}, MaxWaiting: waiting}, order, child)
				runs := map[string]*cairn.Run[string]{}
				for _, tenant := range tenants {
					run, err := order.Start(t.Context(), e.In(tenant), 0, cairn.Key("o-1"))
					require.NoError(t, err)
					runs[tenant] = run
					require.Equal(t, tenant, e.In(tenant).Namespace())
				}
				for _, tenant := range tenants {
					require.Eventually(t, func() bool {
						return approved.Send(t.Context(), e.In(tenant), "the same for all", tenant, cairn.Key("click")) == nil
					}, 10*time.Second, time.Millisecond)
				}
				for _, tenant := range tenants {
					out, err := runs[tenant].Result(t.Context())
					require.NoError(t, err)
					require.Equal(t, tenant+tenant+tenant+" by "+tenant, out)
				}
			})
		})
	}
}

// TestNamespacesDoNotSeeEachOther tries every operation on the run of another tenant, through the same engine.
func TestNamespacesDoNotSeeEachOther(t *testing.T) {
	t.Parallel()
	hook := cairn.NewHook[int]("hook").Token("secret")
	waits := cairn.NewWorkflow("waits", func(ctx cairn.Context, _ int) (int, error) { return hook.Wait(ctx) })
	onBothStores(t, func(t *testing.T, p *place) {
		e := p.engine(cairn.Config{Poll: oftenLooking, Namespaces: []string{"a", "b"}}, waits)
		run, err := waits.Start(t.Context(), e.In("a"), 0, cairn.Key("k"))
		require.NoError(t, err)
		b := e.In("b")
		other := b.Run(run.ID())
		for name, try := range map[string]func(ctx context.Context) error{
			"describe": func(ctx context.Context) error { _, err := other.Describe(ctx); return err },
			"wait":     func(ctx context.Context) error { _, err := other.Wait(ctx); return err },
			"cancel":   func(ctx context.Context) error { return other.Cancel(ctx, "") },
			"end":      func(ctx context.Context) error { return other.Terminate(ctx, "") },
			"pause":    func(ctx context.Context) error { return other.Pause(ctx, "") },
			"resume":   other.Resume,
			"poll now": other.PollNow,
			"delete":   other.Delete,
			"annotate": func(ctx context.Context) error { return other.Annotate(ctx, cairn.Annotation{Name: "n", Value: 1}) },
			"fork":     func(ctx context.Context) error { _, err := other.Fork(ctx, cairn.Fork{}); return err },
			"export":   func(ctx context.Context) error { return other.Export(ctx, io.Discard) },
			"logs":     func(ctx context.Context) error { _, err := other.Logs(ctx, cairn.LogFilter{}); return err },
			"send to":  func(ctx context.Context) error { return hook.SendTo(ctx, b, run.ID(), 1) },
			"by key":   func(ctx context.Context) error { _, err := waits.ByKey(ctx, b, "k"); return err },
			"history": func(ctx context.Context) error {
				for _, err := range other.History(ctx) {
					return err
				}
				return nil
			},
		} {
			require.Equal(t, cairnerr.CodeRunNotFound, cairn.CodeOf(try(t.Context())), name)
		}
		require.Equal(t, cairnerr.CodeHookNotFound, cairn.CodeOf(hook.Send(t.Context(), b, "secret", 1)))
		page, err := b.List(t.Context(), cairn.Filter{})
		require.NoError(t, err)
		require.Empty(t, page.Runs)
		require.Eventually(t, func() bool { return hook.Send(t.Context(), e.In("a"), "secret", 7) == nil }, 10*time.Second, time.Millisecond)
		out, err := run.Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, 7, out, "nothing of that has reached the run")
	})
}

// TestNamespacesThatAreExecutedElsewhere starts a run where the engine does not execute it, and waits for it there.
func TestNamespacesThatAreExecutedElsewhere(t *testing.T) {
	t.Parallel()
	wf := cairn.NewWorkflow("w", func(ctx cairn.Context, _ int) (string, error) { return cairn.NamespaceOf(ctx), nil })
	onBothStores(t, func(t *testing.T, p *place) {
		client := p.engine(cairn.Config{Poll: oftenLooking, Namespaces: []string{"a"}}, wf)
		_, err := wf.Start(t.Context(), client.In("b"), 0)
		require.Equal(t, cairnerr.CodeNotRegistered, cairn.CodeOf(err), "nobody might ever execute it")
		_, err = wf.Start(t.Context(), client.In("*"), 0, cairn.Elsewhere())
		require.Equal(t, cairnerr.CodeMalformed, cairn.CodeOf(err))
		run, err := wf.Start(t.Context(), client.In("b"), 0, cairn.Elsewhere())
		require.NoError(t, err)
		own, err := wf.Start(t.Context(), client.In("a"), 0, cairn.StartAfter(50*time.Millisecond))
		require.NoError(t, err)
		out, err := own.Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, "a", out)
		info, err := run.Describe(t.Context())
		require.NoError(t, err)
		require.Equal(t, cairn.StatusPending, info.Status, "the client leaves it alone")
		p.engine(cairn.Config{Poll: oftenLooking, Namespace: "b"}, wf)
		out, err = run.Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, "b", out)
	})
}

// TestNamespacesAfterADeploy parks a run of a tenant, which the next build tries.
func TestNamespacesAfterADeploy(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, p *place) {
		var fixed atomic.Bool
		wf := cairn.NewWorkflow("w", func(cairn.Context, int) (int, error) {
			if !fixed.Load() {
				panic("a bug")
			}
			return 1, nil
		})
		old := p.engine(cairn.Config{Poll: oftenLooking, Namespace: "tenant", Build: "1"}, wf)
		run, err := wf.Start(t.Context(), old, 0)
		require.NoError(t, err)
		_, err = run.Result(t.Context())
		require.Equal(t, cairnerr.CodeParked, cairn.CodeOf(err))
		require.NoError(t, old.Stop(t.Context()))
		fixed.Store(true)
		client := p.engine(cairn.Config{Poll: oftenLooking, Namespaces: []string{cairn.AllNamespaces}, Build: "2"}, wf).In("tenant")
		require.Eventually(t, func() bool {
			info, err := client.Run(run.ID()).Describe(t.Context())
			return err == nil && info.Status == cairn.StatusCompleted
		}, 10*time.Second, 5*time.Millisecond)
	})
}

func TestNamespacesWithBadNames(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "sqlite")
	st, err := open.URL(t.Context(), p.url)
	require.NoError(t, err)
	defer func() { _ = st.Close() }()
	for name, cfg := range map[string]cairn.Config{
		"nothing": {Namespaces: []string{"a", ""}},
		"all":     {Namespace: cairn.AllNamespaces},
		"a break": {Namespaces: []string{"a\nb"}},
	} {
		_, err := cairn.NewWith(t.Context(), st, cfg)
		require.Equal(t, cairnerr.CodeMalformed, cairn.CodeOf(err), name)
	}
	_, err = cairn.NewWith(t.Context(), st, cairn.Config{Namespaces: []string{"", "a\nb"}})
	var both interface{ Unwrap() []error }
	require.True(t, errors.As(err, &both) && len(both.Unwrap()) == 2, "all mistakes at once: %v", err)
}
