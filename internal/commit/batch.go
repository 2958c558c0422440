package commit

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// The pauses when the database does not do what is asked. They double from the first to the second.
const (
	minPause = 5 * time.Millisecond
	maxPause = time.Second
	// maxTries is how often a batch is tried together before each of its runs is tried alone.
	maxTries = 4
	// maxTriesAlone is how often a run that was read and locked may still collide. Each time somebody else must have been faster.
	maxTriesAlone = 50
)

// batch is the commands of one transaction on their way into the database.
type batch struct {
	c       *Committer
	runs    []*runBatch    // in the order of (namespace, id)
	appends []*appendGroup // in the same order
	outside *journal.Outside
	// careful makes the batch read everything before it decides, because guessing has failed.
	careful bool
	// sent says that the last attempt came as far as its commit.
	sent bool

	works         []*streamWork // what is done to streams, in the order of (namespace, run, name)
	workOf        map[store.StreamKey]*streamWork
	streamChanged []*streamWork // those of them that write something
	written       *store.Changes
}

// runBatch is the commands of one run in a batch.
type runBatch struct {
	key     store.RunKey
	tickets []*Ticket

	state    *journal.State
	was      *journal.Run // before the batch
	verified bool         // state was read in this transaction
	busy     bool         // another transaction holds the run
	// unreadable is why this program must leave the run to another: it holds events that only a newer one knows
	unreadable error
	before     []journal.Event // read before the batch
	events     []journal.Event // written by it
	kept       []journal.Kept  // and taken over from other runs
}

func newBatch(c *Committer, groups []group) *batch {
	slices.SortFunc(groups, func(x, y group) int { return compareKeys(x.key, y.key) })
	runs := make([]runBatch, len(groups))
	b := &batch{c: c, runs: make([]*runBatch, 0, len(groups))}
	for i, g := range groups {
		commands, appends := separate(g.tickets)
		if len(commands) > 0 {
			runs[i].key, runs[i].tickets = g.key, commands
			b.runs = append(b.runs, &runs[i])
		}
		if len(appends) > 0 {
			b.appends = append(b.appends, &appendGroup{g.key, appends})
		}
	}
	return b
}

// parts returns how many runs the batch is about, at most.
func (b *batch) parts() int { return len(b.runs) + len(b.appends) }

func compareKeys(x, y store.RunKey) int {
	if c := strings.Compare(x.Namespace, y.Namespace); c != 0 {
		return c
	}
	return x.Run.Compare(y.Run)
}

// run brings the batch into the database and answers its tickets. An error means that nothing can be committed any more.
func (b *batch) run(ctx context.Context) error { return b.resume(ctx, b.attempt(ctx)) }

// resume is run after the first attempt.
func (b *batch) resume(ctx context.Context, err error) error {
	pause := minPause
	for try := 1; ; try++ {
		switch {
		case err == nil:
			return nil
		case errors.Is(err, store.ErrUnknownOutcome):
			applied, settleErr := b.settle(ctx)
			if settleErr != nil {
				b.rollback()
				return b.giveUp(ctx, settleErr)
			}
			if applied {
				b.succeed()
				return nil
			}
			b.rollback()
			if cause := cairnerr.AsError(err); cause.Code != cairnerr.CodeInternal {
				return b.giveUp(ctx, cause) // a full disk, say: it was not applied, and trying again would not help
			}
			if try > 1 && !sleep(ctx, pause) {
				return b.giveUp(ctx, b.c.closedError())
			}
			pause = min(2*pause, maxPause)
		case errors.Is(err, store.ErrConflict), errors.Is(err, store.ErrBusy):
			b.rollback()
			b.forgetStreams()
			b.c.stats.retried(err)
			b.careful = true
			if errors.Is(err, store.ErrBusy) && b.setAside() {
				if b.parts() == 0 {
					return nil
				}
				break
			}
			if try >= maxTries && b.parts() > 1 {
				return b.oneByOne(ctx)
			}
			if try >= maxTriesAlone && errors.Is(err, store.ErrConflict) {
				return b.giveUp(ctx, cairnerr.Errorf(cairnerr.CodeInternal, "the command collides with what is stored, and reading that does not show how: %w", err))
			}
			if try > 1 && !sleep(ctx, pause) {
				return b.giveUp(ctx, b.c.closedError())
			}
			pause = min(2*pause, maxPause)
		case errors.Is(err, store.ErrSourceGone):
			b.rollback()
			if len(b.runs) > 1 {
				return b.oneByOne(ctx)
			}
			return b.giveUp(ctx, cairnerr.Errorf(cairnerr.CodeRunNotFound, "%w", err))
		case cairnerr.CodeOf(err) == cairnerr.CodeUnreachable && !b.sent && try == 1:
			b.rollback() // the connection was lost before anything was sent to be committed
		case errors.Is(err, context.Canceled) && ctx.Err() == nil:
			b.rollback() // who led could not wait, and it was not applied
		case cairnerr.CodeOf(err) == cairnerr.CodeCorrupt && b.parts() > 1:
			b.rollback()
			return b.oneByOne(ctx) // one of the runs cannot be read
		default:
			b.rollback()
			return b.giveUp(ctx, err)
		}
		err = b.attempt(ctx)
	}
}

// giveUp refuses the batch. It passes on the one after which nothing can be committed.
func (b *batch) giveUp(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) && cairnerr.CodeOf(err) != cairnerr.CodeOutcomeUnknown { // closed, and so not applied, is another thing
		err = b.c.closedError()
	}
	b.refuse(err)
	if cairnerr.CodeOf(err) == cairnerr.CodeFenced {
		return err
	}
	return nil
}

// refuse answers all tickets with an error.
func (b *batch) refuse(err error) {
	for _, r := range b.runs {
		b.c.finish(r.tickets, err)
	}
	for _, g := range b.appends {
		b.c.finish(g.tickets, err)
	}
}

// oneByOne bounds the damage that one run can do to its neighbours.
func (b *batch) oneByOne(ctx context.Context) error {
	parts := make([]*batch, 0, b.parts())
	for _, g := range b.appends { // before the commands of their runs: these may tell how attempts ended that have written them
		parts = append(parts, &batch{c: b.c, appends: []*appendGroup{g}, careful: true})
	}
	for _, r := range b.runs {
		parts = append(parts, &batch{c: b.c, runs: []*runBatch{r}, careful: true})
	}
	for i, alone := range parts {
		if err := alone.run(ctx); err != nil {
			for _, rest := range parts[i+1:] {
				_ = rest.giveUp(ctx, err)
			}
			return err
		}
	}
	return nil
}

// settle finds out what became of a commit whose answer was lost. It does not give up while there is hope: only the
// database knows, and nothing else of this process can be committed before.
func (b *batch) settle(ctx context.Context) (applied bool, err error) {
	pause := minPause
	for {
		b.c.stats.settled()
		applied, err = b.c.writer.Settle(ctx)
		if err == nil || cairnerr.CodeOf(err) == cairnerr.CodeFenced {
			return applied, err
		}
		if cairnerr.CodeOf(err) == cairnerr.CodeClosed || !sleep(ctx, pause) {
			return false, cairnerr.Errorf(cairnerr.CodeOutcomeUnknown, "closed before the outcome of a commit was known: %w", err)
		}
		pause = min(2*pause, maxPause)
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// attempt tries to commit the batch once.
func (b *batch) attempt(ctx context.Context) error {
	now, began := b.c.tick(), time.Now()
	tx, err := b.c.writer.Begin(ctx, now)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	b.outside = journal.NewOutside()
	b.sent = false
	b.guess()
	for doubtful := b.unread(); ; {
		if err := b.load(ctx, tx, doubtful); err != nil {
			return err
		}
		b.reduceAll(now)
		// A refusal must rest on what the database holds, not on what is remembered of it. All runs are reduced again, because they
		// see each other's tokens and start keys.
		if doubtful = b.doubtful(); len(doubtful) == 0 {
			break
		}
		for _, r := range b.runs {
			r.reset()
		}
	}
	b.postponeBusy()
	if err := b.writeStreams(ctx, tx); err != nil {
		return err
	}
	changes := b.changes(now)
	if len(changes.Runs) == 0 && len(changes.Messages) == 0 && len(changes.Done) == 0 && len(changes.Streams) == 0 {
		b.succeed()
		return nil
	}
	b.sent = true
	if err := tx.Commit(ctx, changes); err != nil {
		return err
	}
	b.c.stats.committed(b)
	b.told(began)
	b.succeed()
	return nil
}

// guess gives each run the state that is remembered of it.
func (b *batch) guess() {
	for _, r := range b.runs {
		r.events, r.before, r.kept = nil, nil, nil
		r.verified, r.busy, r.was, r.unreadable = false, false, nil, nil
		r.state = b.c.cache.get(r.key)
		if r.state == nil && !b.careful && onlyCreates(r.tickets[0].cmd) {
			r.state = journal.NewState(r.key.Namespace)
		}
	}
}

// onlyCreates reports whether a command makes a run that very probably does not exist.
func onlyCreates(cmd *journal.Command) bool {
	if len(cmd.Events) == 0 {
		return false
	}
	_, creates := cmd.Events[0].Data.(*journal.RunCreated)
	return creates
}

// unread returns the runs that cannot be reduced from what is remembered.
func (b *batch) unread() []*runBatch {
	var runs []*runBatch
	for _, r := range b.runs {
		if b.careful || r.state == nil || r.mustRead() {
			runs = append(runs, r)
		}
	}
	return runs
}

func (r *runBatch) mustRead() bool {
	appends := false
	for _, t := range r.tickets {
		if mustRead(t.cmd, r.state, appends) {
			return true
		}
		appends = appends || len(t.cmd.Events) > 0
	}
	return false
}

// mustRead reports whether a command depends on more than the run's remembered state. Appends says that an earlier one of the batch appends events to the run, which
// collide if that is not the truth.
func mustRead(cmd *journal.Command, s *journal.State, appends bool) bool {
	// A claim in an epoch that is known, with events, collides if what is remembered is not the truth; another must look.
	blind := cmd.Lease == journal.LeasePush || cmd.Lease == journal.LeaseHeed || cmd.Lease == journal.LeaseClaim && (len(cmd.Events) == 0 || cmd.Guards.Owner.Epoch == 0)
	// A release without events collides with nothing, and would write what is remembered of the run over a pause or a cancel.
	blind = blind || cmd.Lease == journal.LeaseRelease && len(cmd.Events) == 0 && !appends
	// A run that has ended may have been deleted, and a note collides with nothing that would show it.
	blind = blind || s.Run != nil && s.Run.Status.Terminal() || onlyNotes(cmd)
	return blind || !cmd.Guards.Delivery.Message.IsZero() || len(cmd.StartKeys()) > 0 ||
		(cmd.Read.Kind != journal.ReadNone && cmd.Read.Since < s.Seq)
}

// onlyNotes reports whether a command from outside changes nothing about its run.
func onlyNotes(cmd *journal.Command) bool {
	return cmd.Guards.Owner.Incarnation.IsZero() && len(cmd.Events) > 0 &&
		!slices.ContainsFunc(cmd.Events, func(e journal.Event) bool { return e.Data.EventType() != journal.EventAnnotated })
}

// doubtful returns the runs with a refusal, or with nothing to write, that rests on a remembered state.
func (b *batch) doubtful() []*runBatch {
	var runs []*runBatch
	for _, r := range b.runs {
		if !r.verified && !r.busy && slices.ContainsFunc(r.tickets, func(t *Ticket) bool { return t.err != nil || !wroteAll(t.result) }) {
			runs = append(runs, r)
		}
	}
	return runs
}

func wroteAll(res *journal.Result) bool {
	for i := range res.Outcomes {
		if res.Outcomes[i].Appended < 0 {
			return false
		}
	}
	return true
}

// reduceAll reduces all commands of the batch.
func (b *batch) reduceAll(now journal.Time) {
	env := journal.Env{Now: now, Self: b.c.incarnation}
	for _, r := range b.runs {
		if !r.busy {
			r.reduce(env, b.outside)
		}
	}
}

func (r *runBatch) reduce(env journal.Env, outside *journal.Outside) {
	r.was = r.state.Run
	for _, t := range r.tickets {
		t.result, t.err = nil, cmp.Or(r.unreadable, t.earlier.lost())
		if t.err != nil {
			continue
		}
		t.result, t.err = r.state.Reduce(t.cmd, env, outside)
		if t.err != nil {
			continue
		}
		r.kept = append(r.kept, t.result.Kept...)
		if t.cmd.Read.Kind != journal.ReadNone {
			t.result.Read = r.read(t.cmd.Read, t.result)
		}
		if r.events == nil {
			r.events = slices.Clip(t.result.Appended)
		} else {
			r.events = append(r.events, t.result.Appended...)
		}
	}
}

// read answers the question that came with a command: what was loaded, then what the batch has written so far.
func (r *runBatch) read(q journal.Read, res *journal.Result) []journal.Event {
	parts := [][]journal.Event{r.before, r.events}
	if q.Kind == journal.ReadSince {
		parts = append(parts, res.Appended)
	}
	var events []journal.Event
	for _, part := range parts {
		for i := range part {
			if part[i].Seq > q.Since {
				events = append(events, part[i])
			}
		}
	}
	return events
}

// reset forgets what was reduced, so that it can be reduced again.
func (r *runBatch) reset() {
	if r.state != nil {
		r.state.Rollback()
	}
	r.events, r.kept = nil, nil
}

// rollback takes the batch back: the remembered states are again those before it.
func (b *batch) rollback() {
	for _, r := range b.runs {
		if r.state != nil {
			r.state.Rollback()
		}
	}
}

// postponeBusy leaves the runs that another transaction holds for a later batch.
func (b *batch) postponeBusy() {
	b.runs = slices.DeleteFunc(b.runs, func(r *runBatch) bool {
		if r.busy {
			tickets := append(b.takeAppends(r.key), r.tickets...)
			b.c.stats.postponed(len(tickets))
			b.c.queue.later(tickets, 4*minPause)
		}
		return r.busy
	})
}

// changes collects the rows of the batch.
func (b *batch) changes(now journal.Time) *store.Changes {
	changes := &store.Changes{Runs: make([]store.RunChange, 0, len(b.runs))}
	for _, r := range b.runs {
		for _, t := range r.tickets {
			res := t.result
			if t.err != nil {
				continue
			}
			changes.Messages = append(changes.Messages, res.Effects.Messages...)
			if !res.Effects.Done.IsZero() {
				changes.Done = append(changes.Done, res.Effects.Done)
			}
			b.collectWakes(changes, r, res)
		}
	}
	b.wakeOwn(changes, now)
	for _, r := range b.runs {
		rows := r.state.Changed()
		if r.state.Run != nil && (len(r.events) > 0 || rows.Run) {
			changes.Runs = append(changes.Runs, store.RunChange{State: r.state, New: r.was == nil, Events: r.events, Kept: r.kept, Rows: rows, Was: r.was})
			if r.isAwaited() {
				changes.RunHints = append(changes.RunHints, r.key.Run)
			}
		}
	}
	b.streamChanges(changes)
	return changes
}

// isAwaited reports whether the batch writes something that callers in other processes may wait for: the end of the
// run, that it is parked, an answer, or that there will be none.
func (r *runBatch) isAwaited() bool {
	for i := range r.events {
		switch r.events[i].Type {
		case journal.EventRunCompleted, journal.EventRunFailed, journal.EventRunCancelled, journal.EventRunParked,
			journal.EventHookReplied, journal.EventHookDisposed:
			return true
		default:
		}
	}
	return false
}

// collectWakes marks other runs, and hints to other processes that there is something to do.
func (b *batch) collectWakes(changes *store.Changes, r *runBatch, res *journal.Result) {
	for _, id := range res.Effects.Wake {
		if id != r.key.Run {
			changes.Wake = append(changes.Wake, store.RunKey{Namespace: r.key.Namespace, Run: id})
		}
		if !slices.Contains(changes.Notify, r.key.Namespace) {
			changes.Notify = append(changes.Notify, r.key.Namespace)
		}
	}
}

// wakeOwn marks the runs to be woken that the batch writes itself: a parent that is given back while its child ends.
func (b *batch) wakeOwn(changes *store.Changes, now journal.Time) {
	slices.SortFunc(changes.Wake, compareKeys)
	changes.Wake = slices.Compact(changes.Wake)
	changes.Wake = slices.DeleteFunc(changes.Wake, func(k store.RunKey) bool {
		i, own := slices.BinarySearchFunc(b.runs, k, func(r *runBatch, k store.RunKey) int { return compareKeys(r.key, k) })
		if own {
			b.runs[i].state.MarkDue(now)
		}
		return own
	})
}

// succeed remembers the new states and answers the tickets.
func (b *batch) succeed() {
	var tickets []*Ticket
	for _, r := range b.runs {
		r.state.Commit()
		if r.state.Ref == 0 { // settled, not answered: the run's number in the store is not known
			b.c.cache.drop(r.key)
		} else {
			b.c.cache.put(r.key, r.state)
		}
		tickets = append(tickets, r.tickets...)
	}
	b.rememberStreams()
	for _, g := range b.appends {
		tickets = append(tickets, g.tickets...)
	}
	b.c.answer(tickets)
}
