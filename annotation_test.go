package cairn_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
)

// noted returns the annotations of a run as text.
func noted(t *testing.T, e *cairn.Engine, run string, f cairn.AnnotationFilter) []string {
	t.Helper()
	var lines []string
	for a, err := range e.Run(run).Annotations(t.Context(), f) {
		require.NoError(t, err)
		var value string
		require.NoError(t, a.Value(&value))
		lines = append(lines, strings.Join([]string{a.Name, a.Actor, a.Step, value}, " "))
		require.NotZero(t, a.At)
		require.Equal(t, a.Step != "", a.Attempt > 0)
	}
	return lines
}

func TestAnnotations(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		fail := true
		check := cairn.NewStep("check", func(ctx context.Context, _ struct{}) (string, error) {
			err := cairn.Annotate(ctx, cairn.Annotation{Name: "check.seen", Actor: "robot", Value: map[bool]string{true: "bad", false: "good"}[fail]})
			if err == nil && fail {
				fail = false
				err = errors.New("once more")
			}
			return "", err
		}).Retry(cairn.RetryPolicy{Attempts: 2})
		wf := cairn.NewWorkflow("review", func(ctx cairn.Context, _ struct{}) (string, error) {
			if _, err := check.Do(ctx, struct{}{}); err != nil {
				return "", err
			}
			if err := cairn.Annotate(ctx, cairn.Annotation{Name: "review.begun", Value: "now"}); err != nil {
				return "", err
			}
			return cairn.NewHook[string]("mail").Wait(ctx, cairn.Timeout(time.Hour))
		})
		e, other := start(wf), start()
		run, err := wf.Start(t.Context(), e, struct{}{}, cairn.Annotations(cairn.Annotation{Name: "start.why", Actor: "ann", Value: "asked for"}))
		require.NoError(t, err)
		token := ""
		eventually(t, e, run.ID(), func(info *cairn.RunInfo) bool {
			for _, w := range info.Waits {
				token += w.Token
			}
			return token != ""
		})
		require.NoError(t, other.Run(run.ID()).Annotate(t.Context(), cairn.Annotation{Name: "review.comment", Actor: "ann", Value: "wait"}))
		require.NoError(t, cairn.NewHook[string]("sent").Send(t.Context(), e, token, "go"))
		_, err = run.Result(within(t))
		require.NoError(t, err)
		require.NoError(t, e.Run(run.ID()).Annotate(t.Context(), cairn.Annotation{Name: "review.comment", Actor: "bob", Value: "too late"}), "also after the end")

		all := []string{
			"start.why ann  asked for", "check.seen robot check bad", "check.seen robot check good", "review.begun  annotate now",
			"review.comment ann  wait", "review.comment bob  too late",
		}
		require.Equal(t, all, noted(t, e, run.ID(), cairn.AnnotationFilter{}))
		require.Equal(t, all[3:], noted(t, other, run.ID(), cairn.AnnotationFilter{Prefix: "review."}))
		require.Equal(t, []string{all[0], all[4]}, noted(t, e, run.ID(), cairn.AnnotationFilter{Actor: "ann"}))
		require.Equal(t, all[5:], noted(t, e, run.ID(), cairn.AnnotationFilter{Actor: "bob", Prefix: "review.c"}))
		require.Empty(t, noted(t, e, run.ID(), cairn.AnnotationFilter{Prefix: "none"}))
	})
}

func TestAnnotationMisuse(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		wf := cairn.NewWorkflow("many", func(ctx cairn.Context, _ struct{}) (int, error) {
			return cairn.Do(ctx, "noisy", func(ctx context.Context) (int, error) {
				for n := 0; ; n++ {
					if err := cairn.Annotate(ctx, cairn.Annotation{Name: "n"}); err != nil {
						return n, nil //nolint:nilerr // how many there was room for is the result
					}
				}
			})
		})
		e := start(wf)
		n, err := result(t, e, wf, struct{}{})
		require.NoError(t, err)
		require.Equal(t, 100, n)
		run, err := wf.Start(t.Context(), e, struct{}{})
		require.NoError(t, err)
		require.ErrorContains(t, cairn.Annotate(t.Context(), cairn.Annotation{Name: "x"}), "outside")
		require.ErrorContains(t, e.Run(run.ID()).Annotate(t.Context(), cairn.Annotation{}), "needs a name")
		require.Error(t, e.Run(run.ID()).Annotate(t.Context(), cairn.Annotation{Name: "x", Value: make(chan int)}))
		require.ErrorContains(t, e.Run(run.ID()).Annotate(t.Context(), cairn.Annotation{Name: strings.Repeat("x", 600)}), "limit_exceeded")
		require.ErrorContains(t, e.Run("wrun_01ARZ3NDEKTSV4RRFFQ69G5FAV").Annotate(t.Context(), cairn.Annotation{Name: "x"}), "run_not_found")
		_, err = wf.Start(t.Context(), e, struct{}{}, cairn.Annotations(cairn.Annotation{}))
		require.ErrorContains(t, err, "needs a name")
		for _, err := range e.Run("wrun_01ARZ3NDEKTSV4RRFFQ69G5FAV").Annotations(t.Context(), cairn.AnnotationFilter{}) {
			require.ErrorContains(t, err, "run_not_found")
		}
	})
}

// What a goroutine says that outlives its step is refused, not lost without a word.
func TestAnnotateAfterTheStep(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		late, ended := make(chan error, 1), make(chan struct{})
		wf := cairn.NewWorkflow("w", func(ctx cairn.Context, _ int) (int, error) {
			return cairn.Do(ctx, "s", func(ctx context.Context) (int, error) {
				go func() { <-ended; late <- cairn.Annotate(ctx, cairn.Annotation{Name: "late"}) }()
				return 0, nil
			})
		})
		_, err := result(t, start(wf), wf, 0)
		require.NoError(t, err)
		close(ended)
		require.ErrorContains(t, <-late, "context_over")
	})
}
