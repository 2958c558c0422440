package main

import (
	"bytes"
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/store/open"
)

const patience = 30 * time.Second

func openDesk(t *testing.T, manager, director time.Duration) (*desk, *cairn.Engine, cairn.Store) {
	t.Helper()
	d := newDesk(manager, director)
	st, err := open.URL(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "approval.db"))
	require.NoError(t, err)
	eng, err := cairn.NewWith(t.Context(), st, cairn.Config{Poll: 20 * time.Millisecond}, d.workflow)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		require.NoError(t, eng.Stop(ctx))
		require.NoError(t, st.Close())
	})
	return d, eng, st
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// tokenOf waits until a run asks somebody.
func tokenOf(t *testing.T, eng *cairn.Engine, id, hook string) (token string) {
	t.Helper()
	require.Eventually(t, func() bool {
		info, err := eng.Run(id).Describe(t.Context())
		require.NoError(t, err)
		for _, w := range info.Waits {
			if w.Kind == "hook" && w.Key == hook {
				token = w.Token
			}
		}
		return token != ""
	}, patience, 5*time.Millisecond)
	return token
}

func TestAnswerDecides(t *testing.T) {
	t.Parallel()
	for name, approved := range map[string]bool{"yes": true, "no": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, eng, st := openDesk(t, time.Hour, time.Hour)
			r, err := d.workflow.Start(t.Context(), eng, expense(1))
			require.NoError(t, err)
			token := tokenOf(t, eng, r.ID(), "answer of the manager")

			var out bytes.Buffer
			require.NoError(t, answer(within(t), st, token, Answer{Approved: approved, By: "Grace"}, &out))
			require.Contains(t, out.String(), "asked for by Ada", "who decides sees for what")
			require.Contains(t, out.String(), "thank you, Grace")

			decision, err := r.Result(within(t))
			require.NoError(t, err)
			require.Equal(t, approved, decision.Approved)
			require.Equal(t, "Grace", decision.By)
			require.Equal(t, expense(1), decision.Expense)
			require.False(t, decision.At.IsZero())
			require.ErrorContains(t, answer(within(t), st, token, Answer{By: "Grace"}, &out), "nobody waits", "it is too late")
		})
	}
}

func TestSilenceEscalates(t *testing.T) {
	t.Parallel()
	d, eng, st := openDesk(t, 50*time.Millisecond, time.Hour)
	r, err := d.workflow.Start(t.Context(), eng, expense(1))
	require.NoError(t, err)
	token := tokenOf(t, eng, r.ID(), "answer of the director")
	require.NoError(t, answer(within(t), st, token, Answer{Approved: true, By: "Grace"}, &bytes.Buffer{}))
	decision, err := r.Result(within(t))
	require.NoError(t, err)
	require.Equal(t, "approved by Grace", decision.String())
}

func TestSilenceRejects(t *testing.T) {
	t.Parallel()
	d, eng, _ := openDesk(t, 10*time.Millisecond, 10*time.Millisecond)
	r, err := d.workflow.Start(t.Context(), eng, expense(1))
	require.NoError(t, err)
	decision, err := r.Result(within(t))
	require.NoError(t, err)
	require.Equal(t, "rejected by nobody: no answer in time", decision.String())
}

func TestUnknownToken(t *testing.T) {
	t.Parallel()
	_, _, st := openDesk(t, time.Hour, time.Hour)
	require.ErrorContains(t, answer(within(t), st, "no such token", Answer{}, &bytes.Buffer{}), "nobody waits")
}

// screen is where a program writes, and others look.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// TestProgram interrupts the program, starts it again, and answers from another one.
func TestProgram(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "approval.db")
	var before, after screen
	ended := make(chan error, 1)
	ctx, interrupt := context.WithCancel(within(t))
	go func() { ended <- run(ctx, []string{"-db", db, "-timeout", "1h"}, &before) }()
	token := shownToken(t, &before)
	interrupt()
	require.NoError(t, <-ended)
	require.Contains(t, before.String(), "Stopped.")

	ctx = within(t)
	go func() { ended <- run(ctx, []string{"-db", db, "-timeout", "1h"}, &after) }()
	require.Equal(t, token, shownToken(t, &after), "it is the same question")
	var out bytes.Buffer
	require.NoError(t, run(ctx, []string{"-db", db, "-reject", token, "-by", "Grace"}, &out))
	require.NoError(t, <-ended)
	require.Contains(t, after.String(), "Going on with expense 1")
	require.Contains(t, after.String(), "rejected by Grace")

	after = screen{}
	require.NoError(t, run(ctx, []string{"-db", db, "-timeout", "1ms"}, &after))
	require.Contains(t, after.String(), "expense 2: 18.90", "the next one is another one")
}

// shownToken waits until the program shows how to approve.
func shownToken(t *testing.T, s *screen) (token string) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, rest, found := bytes.Cut([]byte(s.String()), []byte("-approve "))
		shown, _, complete := bytes.Cut(rest, []byte("\n"))
		token = string(shown)
		return found && complete
	}, patience, 5*time.Millisecond)
	return token
}
