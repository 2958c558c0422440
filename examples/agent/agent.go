package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cairn-workflow/cairn"
)

// Piece is what the agent shows while it works.
type Piece struct {
	Kind string // "word", "tool" or "note"
	Text string
}

// Call is a tool that the model wants to use.
type Call struct {
	Tool  string
	Input string
	Risky bool // a person must agree
}

// Reply is what the model has said, and the tool that it wants; none: it is done.
type Reply struct {
	Text string
	Call *Call
}

// Verdict is what a person says about a risky call.
type Verdict struct {
	OK bool
	By string
}

// The stream is what people see; a reader gets each piece when it is durable.
var pieces = cairn.NewStream[Piece]("pieces")

// agent has the workflow, and what its steps need.
type agent struct {
	pace     time.Duration // how long the model takes for a word
	token    string        // of the question to a person; "": one that nobody can guess
	workflow *cairn.Workflow[string, string]
	think    cairn.Step[[]string, Reply]
	tool     cairn.Step[Call, string]
}

func newAgent(pace time.Duration) *agent {
	a := &agent{pace: pace}
	a.workflow = cairn.NewWorkflow("agent", a.answer)
	a.think = cairn.NewStep("think", a.model).Retry(cairn.RetryPolicy{Attempts: 3, First: 100 * time.Millisecond})
	a.tool = cairn.NewStep("tool", a.use)
	return a
}

// answer is the workflow: the model thinks, uses a tool, thinks again, until it has the answer. Each thought and each use is a step: after a crash the
// finished ones are not paid for again, and the stream goes on where it was.
func (a *agent) answer(ctx cairn.Context, question string) (string, error) {
	said := []string{question}
	for {
		//cairnvet:ignore loopkey rounds are only added at the end
		reply, err := a.think.Do(ctx, said)
		if err != nil {
			return "", err
		}
		if reply.Call == nil {
			return reply.Text, pieces.Close(ctx)
		}
		result := "refused"
		allowed, err := a.mayUse(ctx, reply.Call)
		if err != nil {
			return "", err
		}
		if allowed {
			//cairnvet:ignore loopkey rounds are only added at the end
			if result, err = a.tool.Do(ctx, *reply.Call); err != nil {
				return "", err
			}
		}
		if err := pieces.Write(ctx, Piece{"tool", fmt.Sprintf("%s(%s) = %s", reply.Call.Tool, reply.Call.Input, result)}); err != nil {
			return "", err
		}
		said = append(said, reply.Text, result)
	}
}

// mayUse asks a person about a risky call, and waits as long as that takes: meanwhile the run is a row in the database.
func (a *agent) mayUse(ctx cairn.Context, call *Call) (bool, error) {
	if !call.Risky {
		return true, nil
	}
	hook := cairn.NewHook[Verdict]("may I").Once().Metadata(call)
	if a.token != "" {
		hook = hook.Token(a.token)
	}
	open, err := hook.Open(ctx)
	if err != nil {
		return false, err
	}
	if err := pieces.Write(ctx, Piece{"note", "may I use " + call.Tool + "?"}); err != nil {
		return false, err
	}
	verdict, err := open.Receive(ctx)
	if err != nil {
		return false, err
	}
	word := "no"
	if verdict.OK {
		word = "yes"
	}
	return verdict.OK, pieces.Write(ctx, Piece{"note", word + ", says " + verdict.By})
}

// model is a fake: it says the same each time, word by word. A real one calls a model and writes what that sends.
func (a *agent) model(ctx context.Context, said []string) (Reply, error) {
	script := []Reply{
		{Text: "I look at the weather first, because a picnic in the rain is no fun.", Call: &Call{Tool: "weather", Input: "Oslo"}},
		{Text: "Dry until six. I would like to invite your friends to the park at three.", Call: &Call{Tool: "mail", Input: "picnic at three", Risky: true}},
		{Text: "Then it is settled: pack the basket, and leave at half past two."},
	}
	reply := script[min(len(said)/2, len(script)-1)]
	if strings.HasSuffix(said[len(said)-1], "refused") {
		reply = Reply{Text: "Then I leave it at that: the weather is fine, and the rest is yours."}
	}
	for word := range strings.SplitSeq(reply.Text, " ") {
		select {
		case <-time.After(a.pace):
		case <-ctx.Done():
			return Reply{}, context.Cause(ctx)
		}
		if err := pieces.Write(ctx, Piece{"word", word}); err != nil {
			return Reply{}, err
		}
	}
	return reply, nil
}

// use uses a tool. A real one gives the idempotency key to whoever does it.
func (a *agent) use(_ context.Context, call Call) (string, error) {
	switch call.Tool {
	case "weather":
		return "dry", nil
	case "mail":
		return "sent", nil
	default:
		return "", cairn.NewError("unknown_tool", call.Tool)
	}
}
