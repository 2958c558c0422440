package cairn_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/cairntest"
)

// seats is a workflow that answers requests until all seats are taken. Its input is how many there are.
var seats = cairn.NewRequestHook[string, int]("seats")

func newSeats() *cairn.Workflow[int, []string] {
	return cairn.NewWorkflow("seats", func(ctx cairn.Context, n int) ([]string, error) {
		open, err := seats.Open(ctx)
		if err != nil {
			return nil, err
		}
		var taken []string
		for len(taken) < n {
			r, err := open.Receive(ctx)
			if err != nil {
				return taken, err
			}
			if r.Value == "nobody" {
				return taken, r.Refuse(ctx, errDeclined)
			}
			seat, err := cairn.Do(ctx, "assign", func(context.Context) (int, error) { return len(taken) + 1, nil }, cairn.Key(r.Value))
			if err != nil {
				return taken, err
			}
			taken = append(taken, r.Value)
			if err := r.Reply(ctx, seat); err != nil {
				return taken, err
			}
		}
		return taken, open.Close(ctx)
	})
}

func TestStartAsk(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		wf := newSeats()
		e := start(wf)
		run, seat, err := cairn.StartAsk(t.Context(), e, wf, 2, seats, "ada")
		require.NoError(t, err)
		require.Equal(t, 1, seat)
		seat, err = seats.AskRun(t.Context(), e, run.ID(), "bob")
		require.NoError(t, err)
		require.Equal(t, 2, seat)
		taken, err := run.Result(within(t))
		require.NoError(t, err)
		require.Equal(t, []string{"ada", "bob"}, taken)
		var first []string
		for _, event := range historyOf(t, e, run.ID())[:4] {
			first = append(first, event.Type)
		}
		require.Equal(t, []string{"run_created", "run_started", "hook_created", "hook_received"}, first)
	})
}

func TestStartAsk_RefusedByTheWorkflow_ReturnsTheRunAndTheError(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		wf := newSeats()
		run, _, err := cairn.StartAsk(t.Context(), start(wf), wf, 1, seats, "nobody")
		require.ErrorIs(t, err, errDeclined)
		taken, err := run.Result(within(t))
		require.NoError(t, err)
		require.Empty(t, taken)
	})
}

// A start that is repeated with its key finds the run and the answer, whatever has become of the run since.
func TestStartAsk_RepeatedWithItsKey_FindsRunAndAnswer(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		wf := newSeats()
		e := start(wf)
		begin := func(in int, who string) (string, int, error) {
			run, seat, err := cairn.StartAsk(t.Context(), e, wf, in, seats, who, cairn.Key("order 7"))
			if run == nil {
				return "", seat, err
			}
			return run.ID(), seat, err
		}
		id, seat, err := begin(2, "ada")
		require.NoError(t, err)
		require.Equal(t, 1, seat)
		again := func(situation string) {
			same, seat, err := begin(2, "ada")
			require.NoError(t, err, situation)
			require.Equal(t, id, same, situation)
			require.Equal(t, 1, seat, situation)
			same, _, err = begin(2, "eve")
			require.Equal(t, id, same, situation)
			requireCode(t, cairnerr.CodeReceiptConflict, err)
			same, _, err = begin(3, "ada")
			require.Empty(t, same, situation)
			requireCode(t, cairnerr.CodeStartKeyConflict, err)
		}
		again("the hook is open")
		_, err = seats.AskRun(t.Context(), e, id, "bob")
		require.NoError(t, err)
		_, err = e.Run(id).Wait(within(t))
		require.NoError(t, err)
		again("the run has ended")
	})
}

// A run that was started without a request gets it through the hook that it has open.
func TestStartAsk_RunWasStartedBefore_IsAsked(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		wf := newSeats()
		e := start(wf)
		before, err := wf.Start(t.Context(), e, 1, cairn.Key("order 7"))
		require.NoError(t, err)
		waitsForHook(t, e, before.ID())
		run, seat, err := cairn.StartAsk(t.Context(), e, wf, 1, seats, "ada", cairn.Key("order 7"))
		require.NoError(t, err)
		require.Equal(t, before.ID(), run.ID())
		require.Equal(t, 1, seat)
	})
}

func TestStartAsk_TokenIsTaken_StartsNothing(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		wf := newSeats()
		e := start(wf)
		named := seats.Token("the seats")
		first, _, err := cairn.StartAsk(t.Context(), e, wf, 2, named, "ada")
		require.NoError(t, err)
		run, _, err := cairn.StartAsk(t.Context(), e, wf, 2, named, "bob")
		requireCode(t, cairnerr.CodeHookConflict, err)
		require.Nil(t, run)
		page, err := e.List(t.Context(), cairn.Filter{})
		require.NoError(t, err)
		require.Len(t, page.Runs, 1)
		seat, err := named.Ask(t.Context(), e, "the seats", "bob")
		require.NoError(t, err)
		require.Equal(t, 2, seat)
		_, err = first.Result(within(t))
		require.NoError(t, err)
	})
}

// The run is executed by another process: the one that starts it does not have the workflow.
func TestStartAsk_Elsewhere_IsAnswered(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		wf := newSeats()
		client := start()
		start(wf)
		run, seat, err := cairn.StartAsk(within(t), client, wf, 1, seats, "ada", cairn.Elsewhere())
		require.NoError(t, err)
		require.Equal(t, 1, seat)
		taken, err := run.Result(within(t))
		require.NoError(t, err)
		require.Equal(t, []string{"ada"}, taken)
	})
}

func TestStartAsk_Misused(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		wf := newSeats()
		e := start(wf)
		_, _, err := cairn.StartAsk(t.Context(), e, wf, 1, cairn.NewRequestHook[string, int]("a/b"), "ada")
		requireCode(t, cairnerr.CodeMalformed, err)
		_, _, err = cairn.StartAsk(t.Context(), e, newNights(t).wf, 0, seats, "ada")
		requireCode(t, cairnerr.CodeNotRegistered, err)
	})
}

func TestStartAsk_ProcessDies_RunGoesOnAndAnswerIsFound(t *testing.T) {
	t.Parallel()
	wf := newSeats()
	cairntest.Run(t, func(e *cairntest.Env) {
		ask := func() (*cairn.Run[[]string], int, error) {
			return cairn.StartAsk(e.Context(), e.Engine(), wf, 2, seats, "ada", cairn.Key("one"))
		}
		run, seat, err := ask()
		require.NoError(t, err)
		require.Equal(t, 1, seat)
		e.Crash()
		same, seat, err := ask()
		require.NoError(t, err)
		require.Equal(t, run.ID(), same.ID())
		require.Equal(t, 1, seat)
		seat, err = seats.AskRun(e.Context(), e.Engine(), run.ID(), "bob")
		require.NoError(t, err)
		require.Equal(t, 2, seat)
		e.RequireSteps(run.ID(), "assign@ada", "assign@bob")
	}, wf)
}
