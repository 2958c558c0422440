package cairn_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
)

// mixed is a workflow that uses everything that a fork may have to keep.
type mixed struct {
	wf     *cairn.Workflow[string, string]
	child  *cairn.Workflow[string, string]
	counts sync.Map
	fail   atomic.Bool
}

var mixedMail = cairn.NewHook[string]("mail")

func newMixed() *mixed {
	m := &mixed{}
	step := text(&m.counts)
	m.child = cairn.NewWorkflow("child", plain(step.Do))
	m.wf = cairn.NewWorkflow("mixed", func(ctx cairn.Context, in string) (string, error) {
		id := cairn.NewID(ctx)
		a, err := step.Do(ctx, "a "+in, cairn.Key("a"))
		if err != nil {
			return "", err
		}
		if err := cairn.Sleep(ctx, time.Millisecond); err != nil {
			return "", err
		}
		b, err := m.child.Run(ctx, "kid")
		if err != nil {
			return "", err
		}
		c, err := mixedMail.Wait(ctx, cairn.Timeout(time.Hour))
		if err != nil {
			return "", err
		}
		late := cairn.NewID(ctx)
		id += late
		d, err := cairn.Map(ctx, "each", []string{"1", "2", "3"}, 2, func(ctx cairn.Context, s string) (string, error) { return step.Do(ctx, "item "+s) })
		if err != nil {
			return "", err
		}
		limited, done := cairn.WithTimeout(ctx, time.Hour)
		defer done()
		e, err := cairn.Do(limited, "last", func(context.Context) (string, error) {
			if m.fail.Load() {
				return "", errors.New("no luck")
			}
			return "last " + in, nil
		})
		return fmt.Sprint(id, "|", a, "|", b, "|", c, "|", d, "|", e), err
	})
	return m
}

// finish starts a run and brings it to its end.
func (m *mixed) finish(t *testing.T, e *cairn.Engine, in string) (*cairn.Run[string], string, error) {
	t.Helper()
	run, err := m.wf.Start(t.Context(), e, in)
	require.NoError(t, err)
	m.mail(t, e, run.ID(), "hello")
	out, err := run.Result(within(t))
	return run, out, err
}

// mail sends to a run when it waits for that.
func (m *mixed) mail(t *testing.T, e *cairn.Engine, run, text string) {
	t.Helper()
	require.NoError(t, cairn.NewHook[string]("sent").Send(t.Context(), e, waitsForHook(t, e, run), text))
}

// A fork does the step from which on it begins, and what came later, and nothing else.
func TestForkFrom(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		m := newMixed()
		m.fail.Store(true)
		e := start(m.wf, m.child)
		source, _, err := m.finish(t, e, "x")
		require.ErrorContains(t, err, "no luck")
		requireOnce(t, &m.counts)

		m.fail.Store(false)
		fork, err := m.wf.Fork(t.Context(), e, source.ID(), cairn.Fork{From: "last", Reason: "mended", Actor: "ann"})
		require.NoError(t, err)
		out, err := fork.Result(within(t))
		require.NoError(t, err)
		require.Contains(t, out, "|a x|kid|hello|[item 1 item 2 item 3]|last x")
		requireOnce(t, &m.counts)

		again, err := m.wf.Fork(t.Context(), e, fork.ID(), cairn.Fork{From: "last"})
		require.NoError(t, err)
		same, err := again.Result(within(t))
		require.NoError(t, err)
		require.Equal(t, out, same, "ids are those of the first run, also in the fork of a fork")

		info, err := fork.Describe(t.Context())
		require.NoError(t, err)
		require.Equal(t, source.ID(), info.ForkOfID)
		require.Empty(t, info.Attributes)
		page, err := e.List(t.Context(), cairn.Filter{ForkOfID: source.ID()})
		require.NoError(t, err)
		require.Len(t, page.Runs, 1)
		require.Equal(t, fork.ID(), page.Runs[0].ID)
		was, err := source.Describe(t.Context())
		require.NoError(t, err)
		require.Equal(t, cairn.StatusFailed, was.Status, "the source stays as it was")
	})
}

// A fork from the middle waits again for what it dropped, under a token of its own, and takes a new input.
func TestForkFromTheMiddleWithAnotherInput(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		m := newMixed()
		e := start(m.wf, m.child)
		source, _, err := m.finish(t, e, "x")
		require.NoError(t, err)
		fork, err := m.wf.ForkWith(t.Context(), e, source.ID(), cairn.Fork{From: "mail", StartKey: "again"}, "y")
		require.NoError(t, err)
		m.mail(t, e, fork.ID(), "bye")
		out, err := fork.Result(within(t))
		require.NoError(t, err)
		require.Contains(t, out, "|a x|kid|bye|[item 1 item 2 item 3]|last y")
		for what, want := range map[string]int32{"a x": 1, "kid": 1, "item 1": 2, "item 3": 2} {
			n, _ := m.counts.Load(what)
			require.Equal(t, want, n.(*atomic.Int32).Load(), what)
		}
		same, err := m.wf.ForkWith(t.Context(), e, source.ID(), cairn.Fork{From: "mail", StartKey: "again"}, "y")
		require.NoError(t, err)
		require.Equal(t, fork.ID(), same.ID())
		_, err = m.wf.ForkWith(t.Context(), e, source.ID(), cairn.Fork{From: "mail", StartKey: "again"}, "z")
		require.ErrorContains(t, err, "start_key_conflict")
	})
}

// A fork can do single things again and keep what came after them; a run that goes on is not disturbed by that, nor by an engine that does not have its workflow.
func TestForkWithoutSomeKeysOfALiveRun(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		m := newMixed()
		e, tool := start(m.wf, m.child), start()
		source, err := m.wf.Start(t.Context(), e, "x")
		require.NoError(t, err)
		eventually(t, e, source.ID(), func(info *cairn.RunInfo) bool { return len(info.Waits) == 2 })
		made, err := tool.Run(source.ID()).Fork(t.Context(), cairn.Fork{Drop: []string{"text@a"}})
		require.NoError(t, err)
		id := made.ID()
		m.mail(t, e, id, "to the fork")
		m.mail(t, e, source.ID(), "to the source")
		fork, err := m.wf.Get(t.Context(), e, id)
		require.NoError(t, err)
		for run, want := range map[*cairn.Run[string]]string{fork: "|a x|kid|to the fork|", source: "|a x|kid|to the source|"} {
			out, err := run.Result(within(t))
			require.NoError(t, err)
			require.Contains(t, out, want)
		}
		n, _ := m.counts.Load("a x")
		require.EqualValues(t, 2, n.(*atomic.Int32).Load())
		n, _ = m.counts.Load("kid")
		require.EqualValues(t, 1, n.(*atomic.Int32).Load())
	})
}

func TestForkMisuse(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		m := newMixed()
		e := start(m.wf, m.child)
		source, _, err := m.finish(t, e, "x")
		require.NoError(t, err)
		for want, f := range map[string]cairn.Fork{
			"a fork needs either From":        {},
			"or Drop, a set of keys":          {From: "last", Drop: []string{"last"}},
			`has the key "nowhere"`:           {From: "nowhere"},
			`has the key "lost": its history`: {Drop: []string{"last", "lost"}},
			`has the key ""`:                  {Drop: []string{""}},
		} {
			_, err := m.wf.Fork(t.Context(), e, source.ID(), f)
			require.ErrorContains(t, err, want)
		}
		_, err = m.child.Fork(t.Context(), e, source.ID(), cairn.Fork{From: "last"})
		require.ErrorContains(t, err, "is a run of")
		_, err = m.wf.Fork(t.Context(), e, "wrun_01ARZ3NDEKTSV4RRFFQ69G5FAV", cairn.Fork{From: "last"})
		require.ErrorContains(t, err, "run_not_found")
		_, err = m.wf.Fork(t.Context(), e, "nonsense", cairn.Fork{From: "last"})
		require.Error(t, err)
	})
}

// A hook through which nothing came yet is opened by the fork itself, with the token that its code wants: when the source is gone, that is free.
func TestForkOpensHooksAnew(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		step := text(&sync.Map{})
		wf := cairn.NewWorkflow("named", func(ctx cairn.Context, _ struct{}) (string, error) {
			open, err := cairn.NewHook[string]("mail").Token("by name").Open(ctx)
			if err != nil {
				return "", err
			}
			a, err := step.Do(ctx, "a")
			if err != nil {
				return "", err
			}
			b, err := open.Receive(ctx)
			return a + b, err
		})
		e := start(wf)
		source, err := wf.Start(t.Context(), e, struct{}{})
		require.NoError(t, err)
		eventually(t, e, source.ID(), func(*cairn.RunInfo) bool { return len(stepsDone(t, e, source.ID())) == 1 })
		taken, err := wf.Fork(t.Context(), e, source.ID(), cairn.Fork{From: "text"})
		require.NoError(t, err)
		_, err = taken.Result(within(t))
		require.ErrorContains(t, err, "hook_conflict", "the source goes on, and holds the name")
		require.NoError(t, source.Terminate(t.Context(), "enough"))
		fork, err := wf.Fork(t.Context(), e, source.ID(), cairn.Fork{From: "text"})
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			return cairn.NewHook[string]("sent").Send(t.Context(), e, "by name", "b", cairn.Key("key")) == nil
		}, 20*time.Second, 5*time.Millisecond)
		out, err := fork.Result(within(t))
		require.NoError(t, err)
		require.Equal(t, "ab", out)
	})
}

// A hook that a fork keeps takes the same type as in the source: what does not fit is refused to its sender.
func TestFork_HookIsKept_GarbageIsRefused(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		numbers, step := cairn.NewHook[int]("numbers"), text(&sync.Map{})
		wf := cairn.NewWorkflow("sum", func(ctx cairn.Context, _ struct{}) (int, error) {
			open, err := numbers.Open(ctx)
			if err != nil {
				return 0, err
			}
			a, err := open.Receive(ctx)
			if err != nil {
				return 0, err
			}
			if _, err := step.Do(ctx, "again"); err != nil {
				return 0, err
			}
			b, err := open.Receive(ctx)
			return a + b, err
		})
		e := start(wf)
		source, err := wf.Start(t.Context(), e, struct{}{})
		require.NoError(t, err)
		token := waitsForHook(t, e, source.ID())
		require.NoError(t, numbers.Send(t.Context(), e, token, 1))
		eventually(t, e, source.ID(), func(*cairn.RunInfo) bool { return len(stepsDone(t, e, source.ID())) == 1 })
		fork, err := wf.Fork(t.Context(), e, source.ID(), cairn.Fork{From: "text"})
		require.NoError(t, err)
		token = waitsForHook(t, e, fork.ID())
		require.ErrorContains(t, e.SendJSON(t.Context(), token, []byte(`"two"`)), "value_refused")
		require.NoError(t, e.SendJSON(t.Context(), token, []byte(`2`)))
		sum, err := fork.Result(within(t))
		require.NoError(t, err)
		require.Equal(t, 3, sum)
	})
}

// waitsForHook waits until a run waits for a hook, and returns the token.
func waitsForHook(t *testing.T, e *cairn.Engine, run string) (token string) {
	t.Helper()
	eventually(t, e, run, func(info *cairn.RunInfo) bool {
		for _, w := range info.Waits {
			if w.Kind == "hook" {
				token = w.Token
			}
		}
		return token != ""
	})
	return token
}

// A run with as many attributes as are allowed can be forked: the one of the engine does not count.
func TestForkOfARunWithAllAttributes(t *testing.T) {
	t.Parallel()
	wf := cairn.NewWorkflow("w", func(ctx cairn.Context, _ int) (int, error) { return 0, cairn.Sleep(ctx, time.Millisecond) })
	e := memory(t, cairn.Config{}, wf)
	all := map[string]string{}
	for i := range 64 {
		all[fmt.Sprint("a", i)] = "x"
	}
	run, err := wf.Start(t.Context(), e, 0, cairn.Attributes(all))
	require.NoError(t, err)
	_, err = run.Result(within(t))
	require.NoError(t, err)
	fork, err := wf.Fork(t.Context(), e, run.ID(), cairn.Fork{From: "sleep"})
	require.NoError(t, err)
	_, err = fork.Result(within(t))
	require.NoError(t, err)
}

func TestForkOfARunThatSetsAllAttributes(t *testing.T) {
	t.Parallel()
	wf := cairn.NewWorkflow("w", func(ctx cairn.Context, _ int) (int, error) {
		for i := range 64 {
			if err := cairn.SetAttributes(ctx, cairn.NewAttribute[int](fmt.Sprint("a", i)).Value(1)); err != nil {
				return 0, err
			}
		}
		_, err := cairn.Do(ctx, "s", func(context.Context) (int, error) { return 0, errors.New("no") })
		return 0, err
	})
	e := memory(t, cairn.Config{}, wf)
	run, err := wf.Start(t.Context(), e, 0)
	require.NoError(t, err)
	_, err = run.Result(within(t))
	require.EqualError(t, err, "no")
	fork, err := wf.Fork(t.Context(), e, run.ID(), cairn.Fork{From: "s"})
	require.NoError(t, err)
	_, err = fork.Result(within(t))
	require.EqualError(t, err, "no")
	fork, err = wf.Fork(t.Context(), e, run.ID(), cairn.Fork{From: "attributes#60"})
	require.NoError(t, err)
	_, err = fork.Result(within(t))
	require.EqualError(t, err, "no")
}

// The streams of a fork begin empty: what is kept is not said again, and a stream that the source closed is open.
func TestForkBeginsWithEmptyStreams(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		wf := cairn.NewWorkflow("talks", func(ctx cairn.Context, _ struct{}) (string, error) {
			for _, word := range []string{"first", "second"} {
				if _, err := cairn.Do(ctx, word, func(ctx context.Context) (int, error) { return 0, words.Write(ctx, word) }); err != nil {
					return "", err
				}
			}
			return "", words.Close(ctx)
		})
		e := start(wf)
		source, err := wf.Start(t.Context(), e, struct{}{})
		require.NoError(t, err)
		_, err = source.Result(within(t))
		require.NoError(t, err)
		fork, err := wf.Fork(t.Context(), e, source.ID(), cairn.Fork{From: "second"})
		require.NoError(t, err)
		_, err = fork.Result(within(t))
		require.NoError(t, err)
		for run, want := range map[string][]string{source.ID(): {"first", "second"}, fork.ID(): {"second"}} {
			for _, opts := range [][]cairn.ReadOption{nil, {cairn.ReadSettled()}} {
				var got []string
				for c, err := range words.Read(within(t), e, run, opts...) {
					require.NoError(t, err)
					got = append(got, c.Value)
				}
				require.Equal(t, want, got)
			}
		}
	})
}

// A start key stands for one fork: not for another one, nor for a run that is no fork.
func TestForkKeys(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		step := text(&sync.Map{})
		wf := cairn.NewWorkflow("w", func(ctx cairn.Context, in string) (string, error) {
			if _, err := step.Do(ctx, in, cairn.Key("a")); err != nil {
				return "", err
			}
			return step.Do(ctx, in, cairn.Key("b"))
		})
		e := start(wf)
		source, err := wf.Start(t.Context(), e, "x", cairn.Key("order 42"))
		require.NoError(t, err)
		_, err = source.Result(within(t))
		require.NoError(t, err)
		_, err = wf.Fork(t.Context(), e, source.ID(), cairn.Fork{From: "text@a", StartKey: "order 42"})
		require.ErrorContains(t, err, "start_key_conflict")
		fork, err := wf.Fork(t.Context(), e, source.ID(), cairn.Fork{From: "text@a", StartKey: "again"})
		require.NoError(t, err)
		same, err := wf.Fork(t.Context(), e, source.ID(), cairn.Fork{From: "text@a", StartKey: "again"})
		require.NoError(t, err)
		require.Equal(t, fork.ID(), same.ID())
		_, err = wf.Fork(t.Context(), e, source.ID(), cairn.Fork{From: "text@b", StartKey: "again"})
		require.ErrorContains(t, err, "start_key_conflict")
		_, err = wf.Start(t.Context(), e, "x", cairn.Key("again"))
		require.ErrorContains(t, err, "start_key_conflict")
	})
}
