package engine

import (
	"reflect"
	"runtime"
	"runtime/debug"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/payload"
	"github.com/cairn-workflow/cairn/observe"
)

// A bug in workflow code must not end a run, and must not start its clean-up: it says nothing about the work. So whatever only a bug can cause
// parks the run before the code sees it, and the run goes on when somebody has fixed the code. This file has all the ways to get there.

// Details of the error with which a run is parked.
const (
	detailPlace    = "place"    // what the code was doing: a key, or the branch
	detailRecorded = "recorded" // the shape of the value in the journal
	detailWanted   = "wanted"   // the Go type that the code has for it
)

// Halt parks the run until somebody has looked at it, and ends the calling goroutine. It returns the reason if the run cannot be parked any more,
// because it is over.
func (b *Branch) Halt(reason *cairnerr.Error) error { return b.misused(reason) }

// misused parks the run because of a mistake in its code. It returns the mistake if the run is over: then there is nothing to park.
func (b *Branch) misused(mistake error) error {
	b.x.mu.Lock()
	over := b.x.ending || b.x.phase == phaseGone || b.isClosed()
	b.x.mu.Unlock()
	if over {
		return mistake
	}
	b.halt(cairnerr.AsError(mistake))
	return mistake
}

// halt parks the run, and ends the calling goroutine.
func (b *Branch) halt(reason *cairnerr.Error) {
	b.stopFor(reason)
	runtime.Goexit()
}

// stopFor parks the run: nothing that its goroutines do from now on is recorded. A run that was resumed in order to be cancelled ends instead.
func (b *Branch) stopFor(reason *cairnerr.Error) {
	x := b.x
	reason = located(reason, b)
	if x.replay != nil {
		b.replayHalts(reason)
	}
	x.mu.Lock()
	request := x.memos.request
	ending := x.memos.ending && request != nil
	x.mu.Unlock()
	if ending {
		x.eng.logHalted(x, reason)
		x.close(&journal.RunCancelled{Reason: request.Reason, Actor: request.Actor, Error: reason})
		return
	}
	// With the release it is given back also if somebody has paused it meanwhile: then it is parked already, and that is what is written of it.
	parked := journal.Event{Data: &journal.RunParked{Error: reason, Build: x.eng.build()}}
	if _, err := x.writeLast(parked, journal.LeaseRelease); err == nil {
		x.eng.logParked(x, reason)
		x.observeParked(reason)
	}
	x.leave(reason)
}

// close ends the run with what was not written yet.
func (x *exec) close(end journal.Data) {
	x.mu.Lock()
	x.ending = true
	x.mu.Unlock()
	x.endChildren()
	x.drain()
	res, err := x.writeLast(journal.Event{Data: end}, journal.LeaseKeep)
	if err == nil {
		x.segmentEnds(observe.EndOver)
		x.eng.observeEnd(x.key, res.Run, end, x.headers)
		x.eng.announce(x.key, res.Run, end)
	}
	x.leave(nil)
}

// located returns the reason with where the code was, and its stack.
func located(reason *cairnerr.Error, b *Branch) *cairnerr.Error {
	if reason.Details[detailPlace] == "" {
		place := b.path
		if place == "" {
			place = "the workflow function"
		}
		reason = reason.With(detailPlace, place)
	}
	if reason.Stack == "" {
		next := *reason
		next.Stack = string(debug.Stack())
		reason = &next
	}
	return shortened(reason)
}

// bugOf returns what is wrong with the way in which a function of the user's ended, nil: it returned.
func bugOf(panicked any, returned bool, err error, who string) *cairnerr.Error {
	switch {
	case panicked != nil:
		return panicError(panicked)
	case !returned:
		return cairnerr.Errorf(cairnerr.CodeGoexit, "%s ended without a result (runtime.Goexit, or t.FailNow?)", who)
	default:
		return unusable(err)
	}
}

// decode reads a value of the journal into what the code has for it, nil: it does not want it. What does not fit parks the run: the code has changed,
// and must not see that as a failure of its work.
func (b *Branch) decode(what, key string, p journal.Payload, into any) error {
	if into == nil {
		return nil
	}
	err := payload.Decode(p, into)
	if err == nil {
		return nil
	}
	reflect.ValueOf(into).Elem().SetZero()
	recorded, wanted := payload.Describe(p), reflect.TypeOf(into).Elem().String()
	return b.misused(cairnerr.Errorf(cairnerr.CodeDecode, "%s cannot be decoded: %s is recorded, and the code wants %s: fix the code and resume the run, or fork it: %w",
		what, recorded, wanted, err).With(detailPlace, key).With(detailRecorded, recorded).With(detailWanted, wanted))
}

// Decode reads a value that the run was given: its input.
func (b *Branch) Decode(what string, p journal.Payload, into any) error {
	return b.decode(what, "", p, into)
}

// Encode makes a value of the code's storable. What cannot be stored parks the run; what is only too large is an error.
func (b *Branch) Encode(what string, v any) (journal.Payload, error) {
	p, err := payload.Encode(v)
	return p, b.encoded(what, v, err)
}

// EncodeDigest is [Branch.Encode], and returns the digest of the value as well.
func (b *Branch) EncodeDigest(what string, v any) (p journal.Payload, digest []byte, err error) {
	p, digest, err = payload.EncodeDigest(v)
	return p, digest, b.encoded(what, v, err)
}

func (b *Branch) encoded(what string, v any, err error) error {
	if err == nil || cairnerr.CodeOf(err) == cairnerr.CodePayloadTooLarge {
		return err
	}
	return b.misused(unstorable(what, v, err))
}

func unstorable(what string, v any, err error) *cairnerr.Error {
	return cairnerr.Errorf(cairnerr.CodeEncode, "%s cannot be encoded: fix the code and resume the run: %w", what, err).With(detailWanted, reflect.TypeOf(v).String())
}

// Result makes what a body returned storable. An error that is not about the size is recognised by the step, which then parks its run.
func Result(what string, v any) (journal.Payload, error) {
	p, err := payload.Encode(v)
	if err != nil && cairnerr.CodeOf(err) != cairnerr.CodePayloadTooLarge {
		return nil, &unstorableError{unstorable(what, v, err)}
	}
	return p, err
}

// unstorableError is a result that cannot be encoded: a mistake in the code, and no failure of the work.
type unstorableError struct{ reason *cairnerr.Error }

// Error implements error.
func (e *unstorableError) Error() string { return e.reason.Error() }

// Unwrap returns the reason.
func (e *unstorableError) Unwrap() error { return e.reason }
