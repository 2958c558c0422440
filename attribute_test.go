package cairn_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/cairnerr"
)

var (
	customer = cairn.NewAttribute[string]("customer")
	amount   = cairn.NewAttribute[int64]("amount")
	score    = cairn.NewAttribute[float64]("score")
	urgent   = cairn.NewAttribute[bool]("urgent")
	due      = cairn.NewAttribute[time.Time]("due")
)

// found returns the inputs of the runs that a search finds, page by page.
func found(t *testing.T, e *cairn.Engine, newestFirst bool, where ...cairn.Condition) []string {
	t.Helper()
	var keys []string
	f := cairn.Filter{Where: where, Limit: 2, NewestFirst: newestFirst}
	for {
		page, err := e.List(t.Context(), f)
		require.NoError(t, err)
		for _, r := range page.Runs {
			keys = append(keys, r.StartKey)
		}
		if !page.More {
			return keys
		}
		f.Cursor = page.Cursor
	}
}

func TestSearchByAttributes(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		wf := cairn.NewWorkflow("order", func(cairn.Context, struct{}) (int, error) { return 0, nil })
		e := start(wf)
		noon := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
		for i, n := range []int64{-300, 5, 0, math.MaxInt64, -2, math.MinInt64, 70} {
			run, err := wf.Start(t.Context(), e, struct{}{}, cairn.Key(fmt.Sprint("r", i)), cairn.WithAttributes(
				customer.Value([]string{"ada", "bob", "adam"}[i%3]), amount.Value(n), score.Value(float64(n)/8), urgent.Value(i%2 == 0),
				due.Value(noon.Add(time.Duration(i)*time.Hour).In(time.FixedZone("x", 3600)))), cairn.Attributes(map[string]string{"plain": "text"}))
			require.NoError(t, err)
			_, err = run.Result(within(t))
			require.NoError(t, err)
			info, err := run.Describe(t.Context())
			require.NoError(t, err)
			got, ok := amount.Of(info)
			require.True(t, ok)
			require.Equal(t, n, got)
			f, ok := score.Of(info)
			require.True(t, ok)
			require.InDelta(t, float64(n)/8, f, 0)
			b, ok := urgent.Of(info)
			require.True(t, ok)
			require.Equal(t, i%2 == 0, b)
			at, ok := due.Of(info)
			require.True(t, ok)
			require.True(t, noon.Add(time.Duration(i)*time.Hour).Equal(at))
			_, ok = cairn.NewAttribute[string]("none").Of(info)
			require.False(t, ok)
		}
		for _, c := range []struct {
			name  string
			where []cairn.Condition
			want  string
		}{
			{"equal", []cairn.Condition{customer.Is("ada")}, "r0 r3 r6"},
			{"two", []cairn.Condition{customer.Is("ada"), urgent.Is(true)}, "r0 r6"},
			{"nobody", []cairn.Condition{customer.Is("eve")}, ""},
			{"prefix", []cairn.Condition{cairn.HasPrefix(customer, "ada")}, "r0 r3 r6 r2 r5"},
			{"negative", []cairn.Condition{amount.Below(0)}, "r5 r0 r4"},
			{"between", []cairn.Condition{amount.Between(-2, 70)}, "r4 r2 r1"},
			{"at least", []cairn.Condition{amount.AtLeast(5)}, "r1 r6 r3"},
			{"floats", []cairn.Condition{score.Between(-1, 1)}, "r4 r2 r1"},
			{"times", []cairn.Condition{due.Between(noon.Add(time.Hour), noon.Add(3*time.Hour))}, "r1 r2"},
			{"all", []cairn.Condition{amount.Exists()}, "r5 r0 r4 r2 r1 r6 r3"},
			{"range and equal", []cairn.Condition{amount.AtLeast(0), urgent.Is(true)}, "r2 r6"},
			{"two ranges", []cairn.Condition{amount.AtLeast(0), cairn.HasPrefix(customer, "b")}, "r1"},
		} {
			want := strings.Fields(c.want)
			require.ElementsMatch(t, want, found(t, e, false, c.where...), c.name)
			require.Equal(t, strings.Join(want, " "), strings.Join(found(t, e, false, c.where...), " "), c.name)
			back := found(t, e, true, c.where...)
			for i, j := 0, len(back)-1; i < j; i, j = i+1, j-1 {
				back[i], back[j] = back[j], back[i]
			}
			require.Equal(t, strings.Join(want, " "), strings.Join(back, " "), c.name)
		}
		_, err := e.List(t.Context(), cairn.Filter{Where: []cairn.Condition{customer.Is("ada"), customer.Is("bob")}})
		require.ErrorContains(t, err, "two values")
		_, err = e.List(t.Context(), cairn.Filter{Where: []cairn.Condition{score.AtLeast(math.NaN())}})
		require.ErrorContains(t, err, "NaN")
		page, err := e.List(t.Context(), cairn.Filter{Limit: 1})
		require.NoError(t, err)
		_, err = e.List(t.Context(), cairn.Filter{Where: []cairn.Condition{amount.Exists()}, Cursor: page.Cursor})
		require.ErrorContains(t, err, "bad cursor")
	})
}

// Attributes are changed by the workflow, once, and from outside, and what the limits do not allow is refused without harm to the run.
func TestChangeAttributes(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		mail := cairn.NewHook[string]("mail")
		wf := cairn.NewWorkflow("order", func(ctx cairn.Context, _ struct{}) (string, error) {
			if err := cairn.SetAttributes(ctx, amount.Value(1), customer.Value("ada")); err != nil {
				return "", err
			}
			for i := range 70 {
				if err := cairn.SetAttributes(ctx, cairn.NewAttribute[int](fmt.Sprint("n", i)).Value(i)); err != nil {
					for j := range i {
						if err := cairn.SetAttributes(ctx, cairn.NewAttribute[int](fmt.Sprint("n", j)).Remove()); err != nil {
							return "", err
						}
					}
					break
				}
			}
			if err := cairn.SetAttributes(ctx, customer.Value(strings.Repeat("x", 257))); err == nil {
				return "", fmt.Errorf("a long value was taken")
			}
			text, err := mail.Wait(ctx, cairn.Timeout(time.Hour))
			if err != nil {
				return "", err
			}
			return text, cairn.SetAttributes(ctx, amount.Value(3))
		})
		e := start(wf)
		run, err := wf.Start(t.Context(), e, struct{}{})
		require.NoError(t, err)
		token := ""
		eventually(t, e, run.ID(), func(info *cairn.RunInfo) bool {
			for _, w := range info.Waits {
				token += w.Token
			}
			return token != ""
		})
		info, err := run.Describe(t.Context())
		require.NoError(t, err)
		require.Len(t, info.Attributes, 2)
		require.NoError(t, e.Run(run.ID()).SetAttributes(t.Context(), amount.Value(2), urgent.Value(true), customer.Remove()))
		require.Empty(t, found(t, e, false, customer.Exists()))
		require.Len(t, found(t, e, false, amount.Is(2)), 1)
		require.NoError(t, cairn.NewHook[string]("sent").Send(t.Context(), e, token, "go"))
		_, err = run.Result(within(t))
		require.NoError(t, err)
		info, err = run.Describe(t.Context())
		require.NoError(t, err)
		n, _ := amount.Of(info)
		require.EqualValues(t, 3, n)
		require.ErrorContains(t, e.Run(run.ID()).SetAttributes(t.Context(), amount.Value(4)), "run_ended")
		_, err = wf.Start(t.Context(), e, struct{}{}, cairn.WithAttributes(score.Value(math.NaN())))
		require.ErrorContains(t, err, "NaN")
		_, err = wf.Start(t.Context(), e, struct{}{}, cairn.WithAttributes(due.Value(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC))))
		require.ErrorContains(t, err, "9999")
		_, err = wf.Start(t.Context(), e, struct{}{}, cairn.Attributes(map[string]string{"$mine": "x"}))
		require.ErrorContains(t, err, "reserved")
	})
}

// reserved is an attribute with a key that the engine keeps for itself.
var reserved = cairn.NewAttribute[string]("$mine")

const isReserved = `attribute "$mine": keys that begin with $ are reserved`

func requireReserved(t *testing.T, err error) {
	t.Helper()
	require.Equal(t, cairnerr.CodeMalformed, cairnerr.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, isReserved)
}

func TestStartIn_KeyOfTheEngine_IsRefused(t *testing.T) {
	t.Parallel()
	p, wf := newPlace(t, "sqlite"), checkout()
	e := p.engine(cairn.Config{Poll: never}, wf)
	tx := p.begin()
	_, err := wf.StartIn(t.Context(), e, tx.handle, "o-1", cairn.WithAttributes(reserved.Value("x")))
	requireReserved(t, err)
	require.NoError(t, tx.rollback())
}

func TestAttributes_KeyOfTheEngine_IsRefusedEverywhere(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		child := cairn.NewWorkflow("child", func(cairn.Context, struct{}) (int, error) { return 0, nil })
		wf := cairn.NewWorkflow("order", func(ctx cairn.Context, _ struct{}) ([]string, error) {
			bad := cairn.Attributes(map[string]string{"plain": "x", "$mine": "x"})
			_, failed := child.StartChild(ctx, struct{}{}, bad)
			refusals := []string{
				fmt.Sprint(failed), fmt.Sprint(cairn.SetAttributes(ctx, reserved.Remove())),
				fmt.Sprint(cairn.SetAttributes(ctx, customer.Value("ada"), reserved.Value("x"))),
			}
			if _, err := child.Run(ctx, struct{}{}, cairn.Attributes(map[string]string{"plain": "x"})); err != nil {
				return nil, err
			}
			return refusals, cairn.SetAttributes(ctx, amount.Value(7))
		})
		e := start(wf, child)
		for _, option := range []cairn.StartOption{
			cairn.Attributes(map[string]string{"plain": "x", "$mine": "x"}),
			cairn.WithAttributes(customer.Value("ada"), reserved.Value("x")),
		} {
			_, err := wf.Start(t.Context(), e, struct{}{}, option)
			requireReserved(t, err)
		}
		page, err := e.List(t.Context(), cairn.Filter{})
		require.NoError(t, err)
		require.Empty(t, page.Runs, "what is refused starts nothing")

		run, err := wf.Start(t.Context(), e, struct{}{}, cairn.StartAfter(time.Hour))
		require.NoError(t, err)
		requireReserved(t, run.SetAttributes(t.Context(), customer.Value("ada"), reserved.Value("x")))
		requireReserved(t, run.SetAttributes(t.Context(), reserved.Remove()))
		info, err := run.Describe(t.Context())
		require.NoError(t, err)
		require.Empty(t, info.Attributes, "all changes of a call, or none")

		run, err = wf.Start(t.Context(), e, struct{}{})
		require.NoError(t, err)
		refusals, err := run.Result(within(t))
		require.NoError(t, err)
		require.Equal(t, slices.Repeat([]string{"malformed: " + isReserved}, 3), refusals)
		info, err = run.Describe(t.Context())
		require.NoError(t, err)
		require.Len(t, info.Attributes, 1)
		require.Len(t, found(t, e, false, cairn.NewAttribute[string]("plain").Exists()), 1, "the other child")
		require.Empty(t, found(t, e, false, reserved.Exists()))
	})
}
