package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cairn-workflow/cairn"
)

// Expense is what somebody wants to be paid back.
type Expense struct {
	Number int
	Who    string
	What   string
	Cents  int
}

// String says it in one line.
func (e Expense) String() string {
	return fmt.Sprintf("expense %d: %d.%02d for %s, asked for by %s", e.Number, e.Cents/100, e.Cents%100, e.What, e.Who)
}

// Question is what who decides can read before deciding. It is the metadata of the hook.
type Question struct {
	Expense Expense
	To      string
}

// Answer is what who decides sends.
type Answer struct {
	Approved bool
	By       string
}

// Decision is how it ended, and who is responsible.
type Decision struct {
	Expense  Expense
	Approved bool
	By       string
	At       time.Time
}

// String says it in one line.
func (d Decision) String() string {
	verdict := "rejected"
	if d.Approved {
		verdict = "approved"
	}
	return fmt.Sprintf("%s by %s", verdict, d.By)
}

// desk has the workflow, and what its steps need.
type desk struct {
	manager, director time.Duration // how long each of them has time to answer

	workflow *cairn.Workflow[Expense, Decision]
	remind   cairn.Step[Question, string]
	record   cairn.Step[Decision, string]
}

func newDesk(manager, director time.Duration) *desk {
	d := &desk{manager: manager, director: director}
	d.workflow = cairn.NewWorkflow("expense", d.decide)
	d.remind = cairn.NewStep("send question", func(_ context.Context, q Question) (string, error) {
		return "to " + q.To, nil // a real one sends a mail with a link that has the token in it
	})
	d.record = cairn.NewStep("record decision", func(_ context.Context, d Decision) (string, error) {
		return d.String(), nil // a real one writes to the books
	})
	return d
}

// decide is the workflow: the manager is asked; who does not answer in time is passed over, and the director is asked. If nobody answers, the
// answer is no. It may wait for weeks: meanwhile it is a row in the database.
func (d *desk) decide(ctx cairn.Context, e Expense) (Decision, error) {
	answer, err := d.ask(ctx, Question{Expense: e, To: "manager"}, d.manager)
	if errors.Is(err, cairn.ErrTimeout) {
		answer, err = d.ask(ctx, Question{Expense: e, To: "director"}, d.director)
	}
	if errors.Is(err, cairn.ErrTimeout) {
		answer, err = Answer{By: "nobody: no answer in time"}, nil
	}
	if err != nil {
		return Decision{}, err
	}
	decision := Decision{Expense: e, Approved: answer.Approved, By: answer.By, At: cairn.Now(ctx)}
	_, err = d.record.Do(ctx, decision)
	return decision, err
}

// answerHook takes somebody's answer, and thanks for it.
func answerHook(of string) cairn.RequestHook[Answer, string] {
	return cairn.NewRequestHook[Answer, string]("answer of the " + of)
}

// ask opens a hook, tells somebody its token, and waits for what comes through it. The token is made by the engine, and cannot be guessed: who has
// it may answer. Once means that of several answers one counts.
func (d *desk) ask(ctx cairn.Context, q Question, patience time.Duration) (Answer, error) {
	hook, err := answerHook(q.To).Once().Metadata(q).Open(ctx)
	if err != nil {
		return Answer{}, err
	}
	if _, err := d.remind.Do(ctx, q, cairn.Key(q.To)); err != nil {
		return Answer{}, err
	}
	request, err := hook.Receive(ctx, cairn.Timeout(patience))
	if err != nil {
		return Answer{}, errors.Join(err, hook.Close(ctx))
	}
	err = request.Reply(ctx, "thank you, "+request.Value.By)
	// A closed hook takes nothing: who answers too late is told so.
	if err := errors.Join(err, hook.Close(ctx)); err != nil {
		return Answer{}, err
	}
	return request.Value, nil
}
