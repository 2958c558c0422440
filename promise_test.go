package cairn_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cairn-workflow/cairn"
)

// kit has what the tests of docs/promises.md need: each primitive in a form that can be used in any workflow, several times, and counts what it does.
type kit struct {
	client func() *cairn.Engine // sends to hooks

	mu      sync.Mutex
	effects map[string]int // how often something was done, by what it was
	looks   map[string]int // of polls

	step, knock, ask, noting cairn.Step[string, string]
	poll                     cairn.Poll[string, string]
	child                    *cairn.Workflow[string, string]
}

var (
	promised  = cairn.NewAttribute[string]("promised")
	promise   = cairn.NewHook[string]("promise")
	question  = cairn.NewRequestHook[string, string]("question")
	often     = cairn.RetryPolicy{Attempts: 50, First: time.Millisecond, Max: 20 * time.Millisecond}
	errDiffer = errors.New("executed again, it is not the same")
)

func newKit() *kit {
	k := &kit{effects: map[string]int{}, looks: map[string]int{}}
	k.step = cairn.NewStep("work", func(ctx context.Context, tag string) (string, error) {
		if cairn.Attempt(ctx) == 1 {
			return "", errors.New("the first attempt fails")
		}
		k.did("work " + tag)
		return tag, nil
	}).Retry(often)
	k.knock = cairn.NewStep("knock", func(ctx context.Context, token string) (string, error) {
		return "", cairn.NewHook[string]("sent").Send(ctx, k.client(), token, "hello", cairn.Key("key of "+token))
	}).Retry(often)
	k.ask = cairn.NewStep("ask", func(ctx context.Context, token string) (string, error) {
		return question.Ask(ctx, k.client(), token, "why", cairn.Key("key of "+token))
	}).Retry(often)
	k.noting = cairn.NewStep("noting", func(ctx context.Context, tag string) (string, error) {
		k.did("noting " + tag)
		return "", cairn.Annotate(ctx, cairn.Annotation{Name: "step", Value: tag})
	})
	k.poll = cairn.NewPoll("poll", 5*time.Millisecond, func(_ context.Context, tag string) (string, bool, error) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.looks[tag]++
		return "found", k.looks[tag] >= 3, nil
	})
	k.child = cairn.NewWorkflow("promised child", func(ctx cairn.Context, tag string) (string, error) {
		if err := cairn.Sleep(ctx, 5*time.Millisecond); err != nil {
			return "", err
		}
		return k.do(ctx, "child", tag)
	})
	return k
}

func (k *kit) did(what string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.effects[what]++
}

func (k *kit) done(what string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.effects[what]
}

// reset forgets what was done.
func (k *kit) reset() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.effects, k.looks = map[string]int{}, map[string]int{}
}

// do is an inline step.
func (k *kit) do(ctx cairn.Context, name, tag string) (string, error) {
	return cairn.Do(ctx, name, func(context.Context) (string, error) { k.did(name + " " + tag); return tag, nil })
}

// same makes sure that a value is what it was when the workflow was first executed.
func (k *kit) same(ctx cairn.Context, value string) error {
	noted, err := cairn.Do(ctx, "noted", func(context.Context) (string, error) { return value, nil })
	if err == nil && noted != value {
		err = fmt.Errorf("%w: %s, and was %s", errDiffer, value, noted)
	}
	return err
}

// primitive does one thing. The tag tells several uses in one run apart.
type primitive func(k *kit, ctx cairn.Context, tag string) (string, error)

// primitives are all that a workflow can do.
func primitives() map[string]primitive {
	return map[string]primitive{
		"step": func(k *kit, ctx cairn.Context, tag string) (string, error) { return k.step.Do(ctx, tag) },
		"sleep": func(_ *kit, ctx cairn.Context, _ string) (string, error) {
			return "slept", cairn.Sleep(ctx, 20*time.Millisecond)
		},
		"deadline": deadlinePrimitive,
		"poll": func(k *kit, ctx cairn.Context, tag string) (string, error) {
			return k.poll.Wait(ctx, cairn.RunID(ctx)+tag)
		},
		"hook":         hookPrimitive,
		"ask":          askPrimitive,
		"child":        func(k *kit, ctx cairn.Context, tag string) (string, error) { return k.child.Run(ctx, tag) },
		"map":          mapPrimitive,
		"race":         racePrimitive,
		"some":         somePrimitive,
		"as completed": asCompletedPrimitive,
		"ids":          idsPrimitive,
		"attributes": func(_ *kit, ctx cairn.Context, tag string) (string, error) {
			return tag, cairn.SetAttributes(ctx, promised.Value(tag))
		},
		"annotations": annotationsPrimitive,
	}
}

func deadlinePrimitive(_ *kit, ctx cairn.Context, _ string) (string, error) {
	limited, stop := cairn.WithTimeout(ctx, 20*time.Millisecond)
	defer stop()
	if err := cairn.Sleep(limited, time.Hour); !errors.Is(err, cairn.ErrTimeout) {
		return "", fmt.Errorf("no timeout: %w", err)
	}
	return "too late", nil
}

func hookPrimitive(k *kit, ctx cairn.Context, tag string) (string, error) {
	h, err := promise.Open(ctx)
	if err != nil {
		return "", err
	}
	// The token stands in the history of the run, and is the same in each execution.
	if _, err := k.knock.Do(ctx, h.Token(), cairn.Key(tag)); err != nil {
		return "", err
	}
	got, err := h.Receive(ctx)
	if err != nil {
		return "", err
	}
	k.did("received " + tag)
	return got, h.Close(ctx)
}

func askPrimitive(k *kit, ctx cairn.Context, tag string) (string, error) {
	h, err := question.Open(ctx)
	if err != nil {
		return "", err
	}
	asked, err := cairn.Go(ctx, "asks", func(ctx cairn.Context) (string, error) { return k.ask.Do(ctx, h.Token(), cairn.Key(tag)) })
	if err != nil {
		return "", err
	}
	r, err := h.Receive(ctx)
	if err != nil {
		return "", err
	}
	if err := r.Reply(ctx, "because "+r.Value); err != nil {
		return "", err
	}
	answer, err := asked.Wait(ctx)
	if err != nil {
		return "", err
	}
	return answer, h.Close(ctx)
}

func mapPrimitive(k *kit, ctx cairn.Context, tag string) (string, error) {
	own := func(item string) string { return tag + " " + item }
	out, err := cairn.Map(ctx, "item", []string{"a", "b", "c"}, 2, func(ctx cairn.Context, item string) (string, error) {
		return k.do(ctx, "item", tag+" "+item)
	}, cairn.KeyBy(own))
	return strings.Join(out, ", "), err
}

// branches starts branches that sleep, and do a step then.
func (k *kit) branches(ctx cairn.Context, tag string, naps ...time.Duration) ([]*cairn.Future[string], error) {
	futures := make([]*cairn.Future[string], len(naps))
	for i, d := range naps {
		var err error
		futures[i], err = cairn.Go(ctx, "branch", func(ctx cairn.Context) (string, error) {
			if err := cairn.Sleep(ctx, d); err != nil {
				return "", err
			}
			return k.do(ctx, "branch", fmt.Sprint(tag, " ", i))
		}, cairn.Key(fmt.Sprint(tag, " ", i)))
		if err != nil {
			return nil, err
		}
	}
	return futures, nil
}

func racePrimitive(k *kit, ctx cairn.Context, tag string) (string, error) {
	futures, err := k.branches(ctx, tag, 10*time.Millisecond, time.Hour)
	if err != nil {
		return "", err
	}
	winner, err := cairn.Race(ctx, futures...)
	if err != nil {
		return "", err
	}
	if _, err := futures[1].Wait(ctx); !errors.Is(err, cairn.ErrLost) {
		return "", fmt.Errorf("the loser returned %w", err)
	}
	return winner, nil
}

func somePrimitive(k *kit, ctx cairn.Context, tag string) (string, error) {
	futures, err := k.branches(ctx, tag, 10*time.Millisecond, time.Hour, 20*time.Millisecond)
	if err != nil {
		return "", err
	}
	won, err := cairn.FirstN(ctx, 2, futures...)
	slices.Sort(won)
	return strings.Join(won, ", "), err
}

func asCompletedPrimitive(k *kit, ctx cairn.Context, tag string) (string, error) {
	futures, err := k.branches(ctx, tag, 70*time.Millisecond, 10*time.Millisecond, 40*time.Millisecond)
	if err != nil {
		return "", err
	}
	var order []string
	for i, f := range cairn.AsCompleted(ctx, futures...) {
		if _, err := f.Wait(ctx); err != nil {
			return "", err
		}
		order = append(order, fmt.Sprint(i))
	}
	if err := k.same(ctx, strings.Join(order, " ")); err != nil {
		return "", err
	}
	return fmt.Sprint(len(order)), nil
}

func idsPrimitive(k *kit, ctx cairn.Context, _ string) (string, error) {
	for range 2 {
		id := cairn.NewID(ctx)
		random := cairn.Rand(ctx)
		if err := k.same(ctx, fmt.Sprint(id, random.Uint64(), cairn.Now(ctx).UTC())); err != nil {
			return "", err
		}
	}
	return "the same", nil
}

func annotationsPrimitive(k *kit, ctx cairn.Context, tag string) (string, error) {
	if _, err := k.noting.Do(ctx, tag, cairn.Key(tag)); err != nil {
		return "", err
	}
	return tag, cairn.Annotate(ctx, cairn.Annotation{Name: "workflow", Value: tag})
}

// bodies are what a primitive does to the world outside, by its name: how often each was done can be counted.
func bodies(name, tag string) []string {
	switch name {
	case "step":
		return []string{"work " + tag}
	case "child":
		return []string{"child " + tag}
	case "map":
		return []string{"item " + tag + " a", "item " + tag + " b", "item " + tag + " c"}
	case "race":
		return []string{"branch " + tag + " 0"}
	case "some":
		return []string{"branch " + tag + " 0", "branch " + tag + " 2"}
	case "as completed":
		return []string{"branch " + tag + " 0", "branch " + tag + " 1", "branch " + tag + " 2"}
	case "annotations":
		return []string{"noting " + tag}
	default:
		return nil
	}
}

// recordedOnce checks that nothing in a history was recorded twice.
func recordedOnce(history []*cairn.HistoryEvent) error {
	seen := map[string]int{}
	for i, e := range history {
		if e.Seq != int64(i+1) {
			return fmt.Errorf("event %d has the number %d", i+1, e.Seq)
		}
		what := e.Type
		switch e.Type {
		case "step_started", "step_retrying", "run_parked", "run_resumed":
			continue // one for each attempt
		case "step_completed", "step_failed":
			what = "outcome"
		case "run_completed", "run_failed", "run_cancelled":
			what = "end"
		case "annotated", "hook_received", "hook_replied": // those of the tests differ in what they say
			what += string(e.Detail)
		}
		what += " of " + e.Key
		if seen[what]++; seen[what] > 1 {
			return fmt.Errorf("%s is recorded twice, again as event %d", what, e.Seq)
		}
	}
	return nil
}
