package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/observe"
)

// Retry says how often, and when, a step that failed is tried again.
type Retry struct {
	Attempts int             // in all; 0 and 1: once; Unlimited
	First    time.Duration   // before the second attempt
	Max      time.Duration   // the longest pause; 0: no limit
	Factor   float64         // by which the pause grows; less than 1: 2
	Jitter   float64         // share of the pause, 0 to 1, by which it may be longer or shorter
	Never    []cairnerr.Code // errors that are not tried again
}

// StepSpec is a step as the code asks for it.
type StepSpec struct {
	Name    string
	Key     string // explicit; "": the n-th use of the name
	Digest  []byte // of the input
	Input   journal.Payload
	Retry   Retry
	Timeout time.Duration // of one attempt; 0: none
	Beat    time.Duration // within which the body must show that it goes on; 0: it need not
	Into    any           // a pointer to what the result is decoded into; nil: it is not
	// Same reports whether a recorded input, read as the type that the code has for it now, is the present one; nil: it cannot be said.
	Same func(recorded, now journal.Payload) bool
}

// StepInfo is what a step's code may know about itself.
type StepInfo struct {
	Run     journal.ID
	Key     string
	Attempt int
	attempt *attempt // nil for a poll
	b       *Branch
}

type infoKey struct{}

// WithInfo returns the context for a step's code, which finds there what it may know about itself.
func WithInfo(ctx context.Context, info StepInfo) context.Context {
	return context.WithValue(ctx, infoKey{}, info)
}

// InfoOf returns what a step's code may know about itself: nothing outside a step.
func InfoOf(ctx context.Context) StepInfo {
	info, _ := ctx.Value(infoKey{}).(StepInfo)
	return info
}

// Step returns the step's id: the same in all attempts and processes, and so its idempotency key.
func (i StepInfo) Step() journal.ID { return journal.DeriveID(i.Run, journal.PrefixStep, i.Key) }

// Namespace returns the one of the step's run, "" outside a step.
func (i StepInfo) Namespace() string {
	if i.b == nil {
		return ""
	}
	return i.b.Namespace()
}

// StepBody is the code of a step.
type StepBody func(ctx context.Context, info StepInfo) (journal.Payload, error)

// recordAfter is how long a body runs before its start is written down.
const recordAfter = time.Second

// maxStarts is how often a step is begun without an outcome before its run is parked as poison.
const maxStarts = 3

// Step returns the recorded result of a step, or does it.
func (b *Branch) Step(s StepSpec, body StepBody) (journal.Payload, error) {
	if err := b.enter(); err != nil {
		return nil, err
	}
	defer b.leave()
	key, err := b.keyOf(s.Name, s.Key)
	if err != nil {
		return nil, err
	}
	if err := journal.CheckPayload("the input of step ", key, s.Input); err != nil {
		return nil, err
	}
	if s.Digest == nil {
		s.Digest = b.item // so a step without an input is still known by the item that it is for
	}
	st := &step{b: b, spec: s, body: b.x.eng.testing.body(&s, body), key: key}
	if m := b.recall(key, kindStep); m != nil {
		if m.done {
			b.compareInput(key, m, given{kindStep, s.Name, s.Key, s.Input, s.Digest, s.Same})
			b.replayCloses(m)
			b.saw(m.at)
			if m.failed != nil {
				return nil, m.failed
			}
			return m.result, b.decode("the recorded result of step "+quote(key), key, m.result, s.Into)
		}
		st.attempt, st.starts, st.retryAfter = m.attempts.N, m.starts, m.retryAfter
	}
	return st.run()
}

func errorOrNil(e *cairnerr.Error) error {
	if e == nil {
		return nil
	}
	return e
}

// step is one step being done.
type step struct {
	b          *Branch
	spec       StepSpec
	body       StepBody
	key        string
	attempt    int // begun so far
	starts     int // recorded without an outcome
	retryAfter journal.Time
	beats      chan struct{}              // signs of life of the body
	called     *begun[observe.AttemptEnd] // the present call, if somebody wants to know of it
	calledAt   time.Time
	reports    atomic.Int64 // how often it told of its progress
	notes      notes        // of the body, which are written with its outcome
	now        *attempt     // the attempt that is under way, or was the last
}

func (s *step) run() (journal.Payload, error) {
	defer s.abandoned()
	for {
		if err := s.b.stopped(); err != nil {
			return nil, s.giveUp(err)
		}
		s.b.frontier(s.key, kindStep)
		s.b.goLive()
		if s.retryAfter > s.b.x.eng.now() {
			s.b.x.block(&waiter{line: s.b.line, ctx: s.b.ctx, at: s.retryAfter, ready: never})
			s.retryAfter = 0
			continue
		}
		if s.starts >= maxStarts {
			s.b.halt(cairnerr.Errorf(cairnerr.CodePoison, "step %q was begun %d times and never ended: it may be killing its processes", s.key, s.starts))
		}
		if s.b.whilePaused() {
			continue
		}
		s.attempt++
		out, began, recorded, err := s.try()
		if errors.Is(err, errPaused) {
			s.attempt--
			continue
		}
		took := int64(s.b.x.eng.now() - began)
		if err == nil {
			s.observed(observe.OutcomeCompleted, nil, 0)
			s.outcome(true, &journal.StepCompleted{
				Name: s.spec.Name, Attempt: s.attempt, StartedAt: began, Took: took, Digest: s.spec.Digest,
				Input: inputUnless(recorded, s.spec.Input), Result: out, Streams: s.now.streams,
			})
			s.b.saw(began + journal.Time(took))
			return out, s.b.decode("the result of step "+quote(s.key), s.key, out, s.spec.Into)
		}
		if cause := s.b.stopped(); cause != nil && errors.Is(cause, ErrLost) {
			s.now.void()
			return nil, cause
		}
		if bug, ok := errors.AsType[*unstorableError](err); ok {
			s.now.void()
			return nil, s.b.misused(bug.reason.With(detailPlace, s.key))
		}
		failure := asFailure(err)
		pause, again := s.spec.Retry.next(s.b.x.key.Run, s.key, s.attempt, err)
		if !again {
			s.observed(observe.OutcomeFailed, failure, 0)
			s.outcome(false, &journal.StepFailed{
				Name: s.spec.Name, Attempt: s.attempt, StartedAt: began, Took: took, Digest: s.spec.Digest,
				Input: inputUnless(recorded, s.spec.Input), Error: failure, Streams: s.now.streams,
			})
			s.b.saw(began + journal.Time(took))
			return nil, failure
		}
		s.observed(observe.OutcomeRetrying, failure, pause)
		s.starts = 0
		s.retryAfter = s.b.x.eng.now().Add(pause)
		s.outcome(false, &journal.StepRetrying{Name: s.spec.Name, Error: failure, RetryAfter: s.retryAfter, Streams: s.now.streams})
	}
}

// giveUp ends a step that waits for its next attempt when its branch must stop: it must not wake the run any more.
func (s *step) giveUp(why error) error {
	if s.attempt == 0 || errors.Is(why, ErrLost) {
		return why
	}
	failure := asFailure(why)
	now := s.b.x.eng.now()
	s.b.add(journal.Event{Key: s.key, Data: &journal.StepFailed{Name: s.spec.Name, Attempt: s.attempt, StartedAt: now, Digest: s.spec.Digest, Error: failure}})
	s.b.saw(now)
	return failure
}

// inputUnless leaves the input out if it was written with the start.
func inputUnless(recorded bool, in journal.Payload) journal.Payload {
	if recorded {
		return nil
	}
	return in
}

// try runs the body once. Its start is written down first if the body may take long, or was tried before.
func (s *step) try() (out journal.Payload, began journal.Time, recorded bool, err error) {
	x := s.b.x
	began = x.eng.now()
	if s.attempt > 1 || s.spec.Timeout > 0 || s.spec.Beat > 0 || x.isSuspect() {
		s.begin(began)
		recorded = true
	}
	x.barrier(s.b.line)
	if !x.eng.alive(x.me) { // this process may have been declared dead: it begins nothing
		x.eng.reborn(x.me) // and frees the run: with nothing left to execute, the heart would not notice
		x.leave(ErrStopped)
		runtime.Goexit()
	}
	if s.b.isPaused() {
		s.notBegun(recorded)
		return nil, began, recorded, errPaused
	}
	ctx, cancel := s.b.ctx, context.CancelFunc(func() {})
	if s.spec.Timeout > 0 {
		ctx, cancel = context.WithTimeoutCause(ctx, s.spec.Timeout, cairnerr.Errorf(cairnerr.CodeTimeout, "step %q took longer than %s", s.key, s.spec.Timeout))
	}
	defer cancel()
	var late *lateStart
	if !recorded {
		late = s.recordLater(began)
	}
	watched, unwatch := s.watch(ctx)
	s.now = &attempt{step: s, number: s.attempt}
	if out, err = s.call(s.observe(watched)); err == nil {
		err = journal.CheckPayload("the result of step ", s.key, out)
	}
	cut := context.Cause(watched) // what ended it, if something did; from now on it is over anyway
	unwatch()
	if sealed := s.now.seal(); err == nil {
		err = sealed
	}
	recorded = late.stop() || recorded
	s.ended(recorded)
	if err != nil && cut != nil && s.b.ctx.Err() == nil {
		err = cut
	} else if err != nil && s.b.ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = context.Cause(s.b.ctx)
	}
	x.check()
	return out, began, recorded, err
}

// begin records that the body begins.
func (s *step) begin(at journal.Time) {
	x := s.b.x
	x.mu.Lock()
	defer x.mu.Unlock()
	if s.b.isClosed() {
		return
	}
	if x.begun == nil {
		x.begun = map[string]string{}
	}
	x.begun[s.key] = s.spec.Name
	x.put(s.b.line, journal.Event{Key: s.key, Data: &journal.StepStarted{Name: s.spec.Name, StartedAt: at, Input: s.spec.Input}})
}

// ended notes that the body has returned. Where nothing was noted of it, nobody is asked.
func (s *step) ended(began bool) {
	if !began && s.reports.Load() == 0 {
		return
	}
	s.b.x.mu.Lock()
	defer s.b.x.mu.Unlock()
	delete(s.b.x.begun, s.key)
	delete(s.b.x.progress, s.key)
}

// lateStart is the start of a body that is written down when it has run for a while.
type lateStart struct {
	step  *step
	began journal.Time
	timer *time.Timer

	mu      sync.Mutex
	written bool
	over    bool
}

// recordLater writes the start down after a while, unless it is stopped.
func (s *step) recordLater(began journal.Time) *lateStart {
	l := &lateStart{step: s, began: began}
	l.timer = time.AfterFunc(recordAfter, l.write)
	return l
}

func (l *lateStart) write() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over || l.step.b.x.isGone() {
		return
	}
	l.written = true
	l.step.begin(l.began)
	l.step.b.x.send()
}

// stop returns whether the start was written. If there is none to be written, it was not.
func (l *lateStart) stop() bool {
	if l == nil {
		return false
	}
	l.timer.Stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	return l.written
}

// call runs the body; a panic becomes an error.
func (s *step) call(ctx context.Context) (out journal.Payload, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicError(p)
		}
	}()
	out, err = s.body(ctx, StepInfo{Run: s.b.x.key.Run, Key: s.key, Attempt: s.attempt, attempt: s.now, b: s.b})
	return out, usable(err)
}

// RetryAfterError is an error that says when its step should be tried again.
type RetryAfterError struct {
	Err   error
	After time.Duration
}

// Error implements error.
func (e *RetryAfterError) Error() string { return e.Err.Error() }

// Unwrap returns the error that was wrapped.
func (e *RetryAfterError) Unwrap() error { return e.Err }

// Unlimited is a number of attempts without a limit.
const Unlimited = -1

// NonRetryableError is an error that no policy tries again.
type NonRetryableError struct{ Err error }

// Error implements error.
func (e *NonRetryableError) Error() string { return e.Err.Error() }

// Unwrap returns the error that was wrapped.
func (e *NonRetryableError) Unwrap() error { return e.Err }

func isNonRetryable(err error) bool {
	_, never := errors.AsType[*NonRetryableError](err)
	return never
}

// next decides whether an attempt that failed is repeated, and after which pause.
func (r Retry) next(run journal.ID, key string, attempt int, err error) (time.Duration, bool) {
	if r.Attempts != Unlimited && attempt >= r.Attempts || isNonRetryable(err) || slices.Contains(r.Never, cairnerr.CodeOf(err)) || cairnerr.CodeOf(err) == cairnerr.CodePayloadTooLarge || errors.Is(err, ErrCancelled) {
		return 0, false
	}
	if after, ok := errors.AsType[*RetryAfterError](err); ok {
		return max(after.After, 0), true
	}
	factor := r.Factor
	if factor < 1 {
		factor = 2
	}
	longest := float64(365 * 24 * time.Hour)
	pause := float64(r.First)
	for i := 1; i < attempt && pause > 0 && pause < longest && (r.Max <= 0 || pause <= float64(r.Max)); i++ {
		pause *= factor
	}
	if r.Max > 0 {
		longest = min(longest, float64(r.Max))
	}
	pause = min(pause, longest)
	// The jitter follows from the step, so that it needs no randomness and many runs still spread.
	id := journal.DeriveID(run, "jitter", key)
	spread := float64(int(id[15])+attempt*37%256)/255 - 0.5
	if spread > 0.5 {
		spread--
	}
	return time.Duration(min(longest, pause*(1+2*min(max(r.Jitter, 0), 1)*spread))), true
}

// unusable returns what is wrong with an error of the user's that panics when it is asked what it says, nil: nothing.
func unusable(err error) *cairnerr.Error {
	if safe := usable(err); safe != nil && cairnerr.CodeOf(safe) == cairnerr.CodePanic {
		if e, ok := errors.AsType[*cairnerr.Error](safe); ok && e.Details[panickedError] != "" {
			return e
		}
	}
	return nil
}

// panickedError marks the error that usable makes of one that panics.
const panickedError = "type"

// usable returns an error of the user's that can be asked what the engine asks of errors. One that panics when it is asked becomes one that says so.
func usable(err error) (safe error) {
	if err == nil {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			safe = cairnerr.Errorf(cairnerr.CodePanic, "the returned error, of type %T, panics in its Error method: %v. Is it a nil pointer? As an error, a nil pointer is not nil", err, p).With(panickedError, fmt.Sprintf("%T", err))
		}
	}()
	_, _ = asFailure(err), errors.Is(err, ErrCancelled) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	_, _ = errors.AsType[*RetryAfterError](err)
	return err
}

// maxErrorText is how many bytes of an error's message, of its stack and of each of its details are recorded.
const maxErrorText = 64 << 10

// asFailure turns what a step returned into what is recorded.
func asFailure(err error) *cairnerr.Error { return shortened(wholeFailure(err)) }

// shortened cuts texts off that are too long for a journal. An error that says too much is still that error: it is not worth another one.
func shortened(e *cairnerr.Error) *cairnerr.Error {
	long := len(e.Message) > maxErrorText || len(e.Stack) > maxErrorText
	for _, text := range e.Details {
		long = long || len(text) > maxErrorText
	}
	if !long {
		return e
	}
	next := *e
	next.Message, next.Stack, next.Details = cutText(e.Message, maxErrorText), cutText(e.Stack, maxErrorText), maps.Clone(e.Details)
	for key, text := range next.Details {
		next.Details[key] = cutText(text, maxErrorText)
	}
	return &next
}

func wholeFailure(err error) *cairnerr.Error {
	e, ok := errors.AsType[*cairnerr.Error](err)
	switch {
	case !ok:
		return &cairnerr.Error{Message: err.Error()}
	case error(e) == err && e.Message != "": //nolint:errorlint // whether it was wrapped is the question
		return e
	default: // what was wrapped around it is said as well
		next := *e
		next.Message = strings.ReplaceAll(err.Error(), e.Error(), e.Message) // the code stands before it already
		return &next
	}
}
