package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
)

// FirstRequest is what a run is asked in the commit that makes it. The hook is open before the code of the run begins:
// when that opens it, without a key, the request is there.
type FirstRequest struct {
	Hook HookSpec
	Sending
}

// events returns what a new run begins with, nothing if it is asked nothing.
func (f *FirstRequest) events(run journal.ID, now journal.Time) []journal.Event {
	if f == nil {
		return nil
	}
	hook := &f.Hook
	return []journal.Event{
		{Key: hook.Name, Data: hook.created(hook.Token, now)},
		{
			Entity: journal.DeriveID(run, journal.PrefixHook, hook.Name),
			Data:   &journal.HookReceived{Token: hook.Token, Sender: f.Key, Payload: f.Payload},
		},
	}
}

// firstOf returns the event of the first request in what a start has written.
func firstOf(res *journal.Result) int64 {
	for i := range slices.Backward(res.Appended) {
		if res.Appended[i].Type == journal.EventHookReceived {
			return res.Appended[i].Seq
		}
	}
	return 0
}

// StartAsk starts a run and sends it its first request, in one commit. If the start key is that of an older run, the
// request goes to the hook with that name that the older run has open, unless it has got it before. The run is returned
// also if the request was refused.
func (e *Engine) StartAsk(ctx context.Context, r StartRequest) (run journal.ID, receipt Receipt, err error) {
	first := r.First
	if err := errors.Join(CheckName(first.Hook.Name), journal.CheckPayload("the request", "", first.Payload)); err != nil {
		return run, receipt, err
	}
	if first.Hook.Token == "" {
		if first.Hook.Token, err = e.newToken(); err != nil {
			return run, receipt, err
		}
	}
	s, err := e.startOnce(ctx, r)
	switch {
	case cairnerr.CodeOf(err) == cairnerr.CodeHookNotFound: // it was not opened: see journal.HookConflict
		err = cairnerr.Errorf(cairnerr.CodeHookConflict, "the token %q is taken by another hook; no run was started", first.Hook.Token)
		return run, receipt, err
	case err != nil:
		return run, receipt, err
	case s.existing:
		receipt, err = e.DeliverTo(ctx, s.run, first.Hook.Name, first.Sending)
		return s.run, receipt, err
	}
	return s.run, Receipt{Run: s.run, Hook: journal.DeriveID(s.run, journal.PrefixHook, first.Hook.Name), Seq: s.first}, nil
}
