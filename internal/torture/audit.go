package torture

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/payload"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/check"
)

const namespace = "default"

// audit holds the database against itself and against the diaries.
type audit struct {
	st      store.Reader
	report  *Report
	found   func(format string, args ...any)
	effects map[string]map[string][]effect // of runs, by the keys of their steps
	others  map[string]bool                // processes that execute another version
	stalls  map[string][]pauseSpan         // of processes
	runs    map[string]*audited
	orders  map[string][]*audited
	forks   map[string][]*audited // by the names of their orders
	entered map[string]string     // runs that were started in transactions of clients, by the names of their orders
	tokens  map[string]*audited   // by the tokens of their hooks
}

// audited is what the audit remembers of a run.
type audited struct {
	id        string
	order     order
	status    journal.Status
	output    string
	receipts  map[receipt]int
	cancelled bool // somebody asked it to stop
	parked    int
	child     bool
	noted     bool              // somebody annotated it
	marks     map[string]string // its attributes
	source    string            // the run of which it is a fork
	outcomes  map[string]outcome
}

// receipt is what a hook has received: who sent it, through which token.
type receipt struct{ token, sender string }

// effect is one call of the body of a step.
type effect struct {
	life    string
	at      int64 // microseconds
	attempt int
	idem    string
	ended   bool // this line says that the effect was done
}

// audit reads everything.
func (o *orchestra) audit(ctx context.Context, st store.Reader, entered map[string]string) error {
	a := &audit{
		st: st, report: &o.report, found: o.found, effects: map[string]map[string][]effect{}, stalls: map[string][]pauseSpan{},
		others: map[string]bool{}, runs: map[string]*audited{}, orders: map[string][]*audited{}, tokens: map[string]*audited{}, forks: map[string][]*audited{}, entered: entered,
	}
	for _, p := range o.workers {
		for _, l := range p.past {
			a.stalls[l.name] = append(a.stalls[l.name], l.stopped...)
			a.others[l.name] = p.program != o.Program
		}
	}
	if err := a.readWorkers(o.dir); err != nil {
		return err
	}
	if o.report.Mixed && o.report.OtherEffects == 0 {
		a.found("the workers of the other version did nothing")
	}
	if err := a.views(ctx); err != nil {
		return err
	}
	if err := a.readRuns(ctx); err != nil {
		return err
	}
	a.strangers()
	clients, err := readDiaries(o.dir, clientDiaries)
	if err != nil {
		return err
	}
	for _, lines := range clients {
		a.requests(lines)
	}
	a.startedOnce(clients)
	a.enteredOnce()
	return a.search(ctx)
}

// views holds the views of all runs against the fold of their journals, as "cairn doctor" does.
func (a *audit) views(ctx context.Context) error {
	found, err := check.All(ctx, a.st, check.Options{Now: func() journal.Time { return journal.TimeOf(time.Now().Add(time.Minute)) }})
	if err != nil {
		return err
	}
	for _, d := range found.Differences {
		a.found("a view differs from the fold of its journal: %+v", d)
	}
	if n := found.Unknown + found.Moving; n > 0 {
		a.found("%d runs could not be held against their journals", n)
	}
	a.report.Events = found.Events
	return nil
}

// readRuns reads the journals of all runs.
func (a *audit) readRuns(ctx context.Context) error {
	page := store.Page{Limit: store.MaxLimit}
	for {
		list, err := a.st.Runs(ctx, namespace, store.RunFilter{}, page)
		if err != nil {
			return err
		}
		for _, run := range list.Data {
			j, err := a.st.Journal(ctx, namespace, run.ID, 0)
			if err != nil {
				return err
			}
			if err := a.run(ctx, run, j.Events); err != nil {
				return fmt.Errorf("%s: %w", journal.PrefixRun.Format(run.ID), err)
			}
		}
		if !list.HasMore {
			return nil
		}
		page.Cursor = list.Cursor
	}
}

// run checks one run.
func (a *audit) run(ctx context.Context, run *journal.Run, events []journal.Event) error {
	r := &audited{
		id: journal.PrefixRun.Format(run.ID), status: run.Status, receipts: map[receipt]int{}, child: !run.Parent.IsZero(),
		marks: run.Attributes, outcomes: map[string]outcome{},
	}
	if !run.ForkedFrom.IsZero() {
		r.source = journal.PrefixRun.Format(run.ForkedFrom)
	}
	a.runs[r.id] = r
	a.report.Runs++
	for i := range events {
		if events[i].Seq != int64(i)+1 {
			a.found("%s: event %d stands in place %d of the journal", r.id, events[i].Seq, i+1)
		}
		if err := a.event(r, &events[i]); err != nil {
			return err
		}
	}
	if r.source != "" {
		a.forks[r.order.Name] = append(a.forks[r.order.Name], r)
	} else {
		a.orders[r.order.Name] = append(a.orders[r.order.Name], r)
	}
	for i := range r.order.Legs {
		a.tokens[r.order.token(i)] = r
	}
	a.ending(r, events)
	a.steps(r, events)
	a.waits(r, events)
	if r.status == journal.StatusCompleted {
		return a.stream(ctx, run.ID, r)
	}
	return nil
}

// event takes what it needs from one event.
func (a *audit) event(r *audited, e *journal.Event) error {
	switch d := e.Data.(type) {
	case *journal.RunCreated:
		return payload.Decode(d.Input, &r.order)
	case *journal.RunCompleted:
		return payload.Decode(d.Output, &r.output)
	case *journal.CancelRequested, *journal.RunCancelled:
		r.cancelled = true
	case *journal.RunParked:
		r.parked++
	case *journal.Annotated:
		r.noted = r.noted || d.Name == noteName
	case *journal.HookReceived:
		at := receipt{d.Token, d.Sender}
		if r.receipts[at]++; r.receipts[at] > 1 {
			a.found("%s: %q was received twice from %q", r.id, d.Token, d.Sender)
		}
	}
	return nil
}

// ending checks that a run has ended as its order allows.
func (a *audit) ending(r *audited, events []journal.Event) {
	ends := slices.ContainsFunc(r.order.Legs, func(l leg) bool { return l.Kind == legForever })
	switch {
	case !r.status.Terminal():
		a.found("%s (%s) has not ended: %s", r.id, r.order.Name, r.status)
	case r.status == journal.StatusCompleted:
		if want := r.order.result(); r.output != want || ends {
			a.found("%s (%s) returned %q instead of %q", r.id, r.order.Name, r.output, want)
		}
	case r.status == journal.StatusCancelled && (ends || r.child && r.cancelled):
		a.cleanedUp(r, events)
	default:
		a.found("%s (%s) is %s: %s", r.id, r.order.Name, r.status, lastWords(events))
	}
}

// cleanedUp checks that a run that was asked to stop, and had begun, did its clean-up.
func (a *audit) cleanedUp(r *audited, events []journal.Event) {
	if r.order.Meddle == meddleTerminate {
		return
	}
	has := func(found func(*journal.Event) bool) bool {
		for i := range events {
			if found(&events[i]) {
				return true
			}
		}
		return false
	}
	began := has(func(e *journal.Event) bool { return e.Type == journal.EventRunStarted })
	clean := has(func(e *journal.Event) bool {
		return e.Type == journal.EventStepCompleted && e.Key == "work@"+cleanUpKey
	})
	mistaken := has(func(e *journal.Event) bool { // its program could not go on, also not to clean up
		end, ok := e.Data.(*journal.RunCancelled)
		return ok && end.Error != nil && (end.Error.Code == cairnerr.CodePanic || end.Error.Code == cairnerr.CodeDecode)
	})
	if began && !clean && !mistaken {
		a.found("%s (%s) was cancelled, and did not clean up", r.id, r.order.Name)
	}
}

func lastWords(events []journal.Event) string {
	if len(events) == 0 {
		return "no events"
	}
	return fmt.Sprintf("%+v", events[len(events)-1].Data)
}

// waits checks that nothing ended before its time.
func (a *audit) waits(r *audited, events []journal.Event) {
	until := map[string]journal.Time{}
	for i := range events {
		e := &events[i]
		switch d := e.Data.(type) {
		case *journal.WaitCreated:
			until[e.Key] = d.ResumeAt
		case *journal.WaitCompleted:
			if d.ResumeAt != 0 && e.At < until[e.Key] {
				a.found("%s: %s ended at %s, before its time %s", r.id, e.Key, e.At, until[e.Key])
			}
		}
	}
}

// stream checks that of what steps and workflow wrote, what holds is there once, and in order.
func (a *audit) stream(ctx context.Context, run journal.ID, r *audited) error {
	want := r.order.chunks()
	if len(want) == 0 {
		return nil
	}
	var got []string
	for from := int64(0); ; {
		page, err := a.st.Stream(ctx, store.StreamKey{Namespace: namespace, Run: run, Name: words.Name()}, store.StreamQuery{From: from, Limit: store.MaxLimit})
		if err != nil {
			return err
		}
		for i := range page.Chunks {
			c := &page.Chunks[i]
			if c.Index != from {
				a.found("%s: its stream has chunk %d in place %d", r.id, c.Index, from)
			}
			from = c.Index + 1
			if c.Attempt > 0 && c.State != store.SourceSettled {
				continue
			}
			var text string
			if err := payload.Decode(c.Data, &text); err != nil {
				return err
			}
			got = append(got, text)
		}
		if !page.More {
			break
		}
	}
	if !slices.Equal(got, want) {
		a.found("%s: its stream holds %q instead of %q", r.id, got, want)
	}
	return nil
}
