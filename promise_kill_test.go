package cairn_test

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/cairntest"
	"github.com/cairn-workflow/cairn/internal/bubble"
)

// TestPromiseKill has each primitive in a run whose process is killed at each place at which it can die. The run ends as without a kill; nothing is recorded
// twice; what it does to the world is done once, or once more for the kill; each child is started once.
func TestPromiseKill(t *testing.T) {
	t.Parallel()
	for name, do := range killable() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit()
			wf := k.andThenSleep(do)
			prepare := func(e *cairntest.Env) { k.reset(); k.client = e.Engine }
			look := func(e *cairntest.Env) {
				if err := lookAtTheEnd(k, e, name); err != nil {
					t.Error(err)
				}
			}
			crashes := cairntest.CrashEverywhere(t, wf, "once", cairntest.With(k.child), cairntest.Prepare(prepare), cairntest.Drive(look))
			require.GreaterOrEqual(t, crashes, 4)
			t.Logf("%d kills", crashes)
		})
	}
}

// andThenSleep is a workflow that does a primitive, and then something else: so it is also executed again when the primitive is recorded.
func (k *kit) andThenSleep(do primitive) *cairn.Workflow[string, string] {
	return cairn.NewWorkflow("promised", func(ctx cairn.Context, tag string) (string, error) {
		out, err := do(k, ctx, tag)
		if err != nil {
			return "", err
		}
		return out, cairn.Sleep(ctx, 20*time.Millisecond)
	})
}

// killable are the primitives to kill. A kill takes thirty times as long with the race detector: then these are a few of them, unless there is time for all (make
// verify). make test kills all of them without it.
func killable() map[string]primitive {
	all := primitives()
	if !bubble.Race || os.Getenv("CAIRN_VERIFY") != "" {
		return all
	}
	return map[string]primitive{"step": all["step"], "hook": all["hook"]}
}

// lookAtTheEnd waits until the run has ended, and looks at what it has left.
func lookAtTheEnd(k *kit, e *cairntest.Env, name string) error {
	var run *cairn.RunInfo
	for tries := 0; run == nil || run.EndedAt.IsZero(); tries++ {
		if tries == 10_000 {
			return errors.New("the run does not end")
		}
		e.Sleep(time.Second)
		page, err := e.Engine().List(e.Context(), cairn.Filter{Workflow: "promised"})
		if err != nil || len(page.Runs) == 0 {
			continue // killed before it was started
		}
		if len(page.Runs) > 1 {
			return fmt.Errorf("%d runs were started", len(page.Runs))
		}
		run = page.Runs[0]
	}
	history := e.History(run.ID)
	if err := recordedOnce(history); err != nil {
		return err
	}
	for _, body := range bodies(name, "once") {
		if n := k.done(body); n < 1 || n > 2 {
			return fmt.Errorf("%s was done %d times, with one kill", body, n)
		}
	}
	children, err := e.Engine().List(e.Context(), cairn.Filter{ParentID: run.ID})
	if err != nil {
		return err
	}
	if want := map[bool]int{true: 1}[name == "child"]; len(children.Runs) != want {
		return fmt.Errorf("%d children were started, not %d", len(children.Runs), want)
	}
	count := map[string]int{}
	for _, event := range history {
		count[event.Type]++
	}
	for event, want := range map[string]map[string]int{"annotations": {"annotated": 2}, "attributes": {"attr_set": 1}, "hook": {"hook_received": 1}, "ask": {"hook_received": 1, "hook_replied": 1}}[name] {
		if count[event] != want {
			return fmt.Errorf("%d events %s, not %d", count[event], event, want)
		}
	}
	return nil
}

// TestPromiseEvict has each primitive in a run that is dropped from memory at each of its waits: it writes the same and ends the same.
func TestPromiseEvict(t *testing.T) {
	t.Parallel()
	for name, do := range primitives() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit()
			wf := k.andThenSleep(do)
			prepare := func(e *cairntest.Env) { k.reset(); k.client = e.Engine }
			cairntest.EvictEverywhere(t, wf, "once", cairntest.With(k.child), cairntest.Prepare(prepare))
			for _, body := range bodies(name, "once") {
				require.Equal(t, 1, k.done(body), body)
			}
		})
	}
}
