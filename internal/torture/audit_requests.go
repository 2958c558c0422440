package torture

import (
	"context"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// requests holds what one client asked for, and what it was told, against what there is.
func (a *audit) requests(lines []line) {
	asked := map[receipt]bool{}
	for i := range lines {
		l := &lines[i]
		switch l.Says {
		case saysAsk:
			asked[receipt{l.Token, l.Key}] = true
		case saysTold:
			a.told(l)
		case saysRefused:
			a.refused(l)
		case saysEnded:
			a.ended(l)
		case saysWrong:
			a.found("a client says of %s %s: %s (%s)", l.Order, l.Run, l.Text, l.Code)
		}
	}
	a.neverAsked(lines, asked)
}

// told checks something that was acknowledged.
func (a *audit) told(l *line) {
	switch l.Ask {
	case askStart:
		a.report.Starts++
		if r := a.runs[l.Run]; r == nil || r.order.Name != l.Order {
			a.found("the start of %s was acknowledged as %s, which is not there", l.Order, l.Run)
		}
	case askSend, askAnswer:
		a.report.Sends++
		if r := a.tokens[l.Token]; r == nil || r.receipts[receipt{l.Token, l.Key}] != 1 {
			a.found("what %q sent to %s was acknowledged, and was not received", l.Key, l.Token)
		}
	case askCancel, askTerminate:
		if r := a.runs[l.Run]; r != nil && !r.cancelled && r.status != journal.StatusCompleted {
			a.found("the %s of %s was acknowledged, and is not recorded", l.Ask, l.Run)
		}
	case askPause:
		if r := a.runs[l.Run]; r != nil && r.parked == 0 {
			a.found("the pause of %s was acknowledged, and is not recorded", l.Run)
		}
	case askNote:
		if r := a.runs[l.Run]; r != nil && !r.noted {
			a.found("a note on %s was acknowledged, and is not recorded", l.Run)
		}
	case askMark:
		if r := a.runs[l.Run]; r != nil && r.marks[laterMark.Key()] != l.Order {
			a.found("an attribute of %s was acknowledged, and is %q", l.Run, r.marks[laterMark.Key()])
		}
	case askFork:
		a.report.Forks++
		if r := a.runs[l.Run]; r == nil || r.source != l.Key {
			a.found("the fork of %s was acknowledged as %s, which is not there", l.Key, l.Run)
		}
	}
}

// refused checks something that was refused: it must not be there. Of what ended without an answer, nothing can be said.
func (a *audit) refused(l *line) {
	if l.Code == string(cairnerr.CodeOutcomeUnknown) {
		return
	}
	switch l.Ask {
	case askStart:
		if n := len(a.orders[l.Order]); n > 0 {
			a.found("the start of %s was refused (%s: %s), and there are %d runs of it", l.Order, l.Code, l.Text, n)
		}
	case askSend:
		if r := a.tokens[l.Token]; r != nil && r.receipts[receipt{l.Token, l.Key}] > 0 {
			a.found("what %q sent to %s was refused (%s), and was received", l.Key, l.Token, l.Code)
		}
	}
}

// ended checks that a client was told of an end as it is recorded.
func (a *audit) ended(l *line) {
	r := a.runs[l.Run]
	if r == nil {
		return // it is found missing by its start
	}
	if r.status.String() != l.Code || r.output != l.Text {
		a.found("a client was told that %s is %s with %q, and it is %s with %q", l.Run, l.Code, l.Text, r.status, r.output)
	}
}

// neverAsked looks for what the runs of one client received without being sent.
func (a *audit) neverAsked(lines []line, asked map[receipt]bool) {
	mine := map[string]bool{}
	for i := range lines {
		if lines[i].Ask == askStart {
			mine[lines[i].Order] = true
		}
	}
	for name, runs := range a.orders {
		if !mine[rootOf(name)] {
			continue
		}
		for _, r := range runs {
			for got := range r.receipts {
				if !asked[got] {
					a.found("%s received something through %s from %q, which nobody sent", r.id, got.token, got.sender)
				}
			}
		}
	}
}

// startedOnce checks that no order has two runs, and that none has one that nobody asked for.
func (a *audit) startedOnce(clients map[string][]line) {
	asked := map[string]bool{}
	for _, lines := range clients {
		for i := range lines {
			if lines[i].Ask == askStart {
				asked[lines[i].Order] = true
			}
		}
	}
	for name, runs := range a.orders {
		if len(runs) > 1 {
			a.found("%s has %d runs: %s and %s", name, len(runs), runs[0].id, runs[1].id)
		}
		if !asked[rootOf(name)] {
			a.found("%s has a run, and nobody asked for it", name)
		}
	}
	for name, forks := range a.forks {
		if len(forks) > 1 {
			a.found("%s has %d forks: %s and %s", name, len(forks), forks[0].id, forks[1].id)
		}
	}
}

// enteredOnce checks that what clients entered in transactions of their own is there, and was not without the entry.
func (a *audit) enteredOnce() {
	a.report.Entered = int64(len(a.entered))
	for name, run := range a.entered {
		if r := a.runs[run]; r == nil || r.order.Name != name {
			a.found("%s was entered with its start as %s, which is not there", name, run)
		}
	}
	for name, runs := range a.orders {
		if r := runs[0]; r.order.InTx && !r.child && a.entered[name] != r.id {
			a.found("%s is there, and was not entered in the transaction that started it", r.id)
		}
	}
}

// search looks for runs by the attribute that they were started with.
func (a *audit) search(ctx context.Context) error {
	for name, runs := range a.orders {
		if runs[0].child {
			continue
		}
		want := len(runs) + len(a.forks[name])
		list, err := a.st.Runs(ctx, namespace, store.RunFilter{Attributes: map[string]string{nameMark.Key(): name}}, store.Page{Limit: want + 1})
		if err != nil {
			return err
		}
		if len(list.Data) != want {
			a.found("%d runs are found by the attribute of %s, and there are %d", len(list.Data), name, want)
		}
	}
	return nil
}
