package engine_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/cairn-workflow/cairn/internal/bubble"
	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/store/faultstore"
)

// TestAPushIsNeverLost pushes runs at each millisecond of a look that takes 5 of them and of what the database does then, which takes 10 each time: while the poll looks, while its run is given
// back, and afterwards. The poll has no interval, so a push that nobody hears is one for ever.
func TestAPushIsNeverLost(t *testing.T) {
	t.Parallel()
	for name, elsewhere := range map[string]bool{"from the process that executes it": false, "from another": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := t.TempDir() + "/x.db"
			bubble.Run(t, func(t *testing.T) { //nolint:thelper // it is the test
				var arrived sync.Map
				looked := make(chan struct{}, 10)
				wf := &engine.Workflow{Name: "w", Run: func(b *engine.Branch, _ journal.Payload) (journal.Payload, error) {
					return b.Poll(engine.PollSpec{Name: "file"}, func(_ context.Context, info engine.StepInfo) (journal.Payload, bool, error) {
						_, ready := arrived.Load(info.Run)
						looked <- struct{}{}
						time.Sleep(5 * time.Millisecond)
						return nil, ready, nil
					})
				}}
				executes := slowLife(t, path, wf)
				pushes := executes
				if elsewhere {
					pushes = slowLife(t, path)
				}
				for after := range 80 {
					run, err := executes.Start(t.Context(), engine.StartRequest{Workflow: "w"})
					require.NoError(t, err)
					<-looked
					time.Sleep(time.Duration(after) * time.Millisecond)
					arrived.Store(run, true)
					require.NoError(t, pushes.Push(t.Context(), run))
					ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
					_, err = executes.Wait(ctx, run)
					cancel()
					require.NoError(t, err, "pushed %d ms after the look began", after)
					for len(looked) > 0 {
						<-looked
					}
				}
			})
		})
	}
}

// TestAPushBesideADelivery pushes a run that rests, and sends it something at each millisecond of that: the claim of the one takes away the mark of the other.
func TestAPushBesideADelivery(t *testing.T) {
	t.Parallel()
	for name, elsewhere := range map[string]bool{"from the process that executes it": false, "from another": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := t.TempDir() + "/x.db"
			bubble.Run(t, func(t *testing.T) { //nolint:thelper // it is the test
				var arrived sync.Map
				wf := &engine.Workflow{Name: "w", Run: func(b *engine.Branch, token journal.Payload) (journal.Payload, error) {
					file, err := b.Go("file", "", func(b *engine.Branch) (journal.Payload, error) {
						return b.Poll(engine.PollSpec{Name: "file"}, func(_ context.Context, info engine.StepInfo) (journal.Payload, bool, error) {
							_, ready := arrived.Load(info.Run)
							return nil, ready, nil
						})
					})
					if err != nil {
						return nil, err
					}
					h, err := b.OpenHook(engine.HookSpec{Name: "hook", Token: string(token)})
					if err != nil {
						return nil, err
					}
					if _, err := h.Receive(b, nil); err != nil {
						return nil, err
					}
					return b.Wait(file)
				}}
				executes := slowLife(t, path, wf)
				pushes := executes
				if elsewhere {
					pushes = slowLife(t, path)
				}
				for after := range 60 {
					token := fmt.Sprint("token ", after)
					run, err := executes.Start(t.Context(), engine.StartRequest{Workflow: "w", Input: journal.Payload(token)})
					require.NoError(t, err)
					time.Sleep(time.Second) // it rests
					var both errgroup.Group
					both.Go(func() error {
						arrived.Store(run, true)
						return pushes.Push(t.Context(), run)
					})
					both.Go(func() error {
						time.Sleep(time.Duration(after) * time.Millisecond)
						_, err := executes.Deliver(t.Context(), token, "", nil)
						return err
					})
					require.NoError(t, both.Wait())
					ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
					_, err = executes.Wait(ctx, run)
					cancel()
					require.NoError(t, err, "something came %d ms after the push", after)
				}
			})
		})
	}
}

// slowLife is a process whose writers take 10 milliseconds to read and to commit.
func slowLife(t *testing.T, path string, wfs ...*engine.Workflow) *engine.Engine {
	t.Helper()
	e, _ := plannedLife(t, path, func(op faultstore.Op, _ int) faultstore.Fault {
		if op == faultstore.OpCommit || op == faultstore.OpLoad {
			return faultstore.Fault{Delay: 10 * time.Millisecond}
		}
		return faultstore.Fault{}
	}, wfs...)
	return e
}
