// Command agent is a model that thinks aloud, uses tools and asks a person before it does something risky. What it says is a stream: it comes word by word, and
// nothing is lost or said twice when the process is killed.
//
//	go run ./examples/agent                  # stop it with Ctrl-C or kill -9, and start it again: it goes on
//	go run ./examples/agent -approve TOKEN   # in a second terminal, when it asks; or -reject TOKEN
//	go run ./examples/agent -follow          # in a third one: another process reads along
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/examples/internal/program"
	"github.com/cairn-workflow/cairn/examples/internal/show"
	"github.com/cairn-workflow/cairn/store/open"
)

func main() { program.Main("agent", run) }

const question = "Should we have a picnic today?"

// settings are what the command line says.
type settings struct {
	db, approve, reject, by string
	pace, lease             time.Duration
	yes, follow             bool
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	began := time.Now()
	var set settings
	flags := flag.NewFlagSet("agent", flag.ExitOnError)
	flags.StringVar(&set.db, "db", "agent.db", "where the conversations are kept: a SQLite file, or postgres://…")
	flags.DurationVar(&set.pace, "pace", 150*time.Millisecond, "how long the model takes for a word")
	flags.DurationVar(&set.lease, "lease", program.Lease, "how long a process that was killed keeps what it was doing")
	flags.BoolVar(&set.yes, "yes", false, "agree to everything that the agent asks")
	flags.BoolVar(&set.follow, "follow", false, "only read along with the last conversation")
	flags.StringVar(&set.approve, "approve", "", "say yes to the question with this `token`, and do nothing else")
	flags.StringVar(&set.reject, "reject", "", "say no to the question with this `token`, and do nothing else")
	flags.StringVar(&set.by, "by", cmp.Or(os.Getenv("USER"), "somebody"), "who you are, when you approve or reject")
	if err := flags.Parse(args); err != nil {
		return err
	}
	st, err := open.URL(ctx, set.db)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, st.Close()) }()
	a := newAgent(set.pace)
	var workflows []cairn.Definition
	do := func(eng *cairn.Engine) error { return a.startAndPrint(ctx, eng, began, set, out) }
	switch {
	case set.approve != "" || set.reject != "":
		do = func(eng *cairn.Engine) error {
			return cairn.NewHook[Verdict]("sent").Send(ctx, eng, set.approve+set.reject, Verdict{OK: set.approve != "", By: set.by})
		}
	case set.follow:
		do = func(eng *cairn.Engine) error { return followLast(ctx, eng, out) }
	default:
		workflows = append(workflows, a.workflow)
	}
	return serve(ctx, st, set, workflows, do, out)
}

func serve(ctx context.Context, st cairn.Store, set settings, workflows []cairn.Definition, do func(*cairn.Engine) error, out io.Writer) error {
	return program.WithEngine(ctx, st, set.lease, workflows, do, out, "Start it again, and the conversation goes on from where it is.")
}

// startAndPrint starts a conversation, or finds the one that an earlier process has left, and prints it until it has ended.
func (a *agent) startAndPrint(ctx context.Context, eng *cairn.Engine, began time.Time, set settings, out io.Writer) error {
	number, unfinished, err := show.Next(ctx, eng, began, cairn.Filter{Workflow: a.workflow.Name()})
	if err != nil {
		return err
	}
	// The start key makes it safe to repeat: a conversation that was started before is found by it.
	r, err := a.workflow.Start(ctx, eng, question, cairn.Key(fmt.Sprint("conversation ", number)),
		cairn.Attributes(map[string]string{show.Number: strconv.Itoa(number)}))
	if err != nil {
		return err
	}
	if unfinished {
		fmt.Fprintf(out, "Conversation %d goes on (%s).\n\n", number, show.AfterKill)
	} else {
		fmt.Fprintf(out, "Conversation %d is new. %s\n\n", number, show.StopMe)
	}
	if err := show.Resume(ctx, eng, r.ID()); err != nil {
		return err
	}
	p := &printer{out: out, asked: func() error { return help(ctx, eng, r.ID(), set, out) }}
	if err := p.print(ctx, eng, r.ID()); err != nil {
		return err
	}
	_, err = r.Result(ctx)
	return err
}

// help tells a person how to answer, or answers.
func help(ctx context.Context, eng *cairn.Engine, run string, set settings, out io.Writer) error {
	info, err := eng.Run(run).Describe(ctx)
	if err != nil {
		return err
	}
	for _, w := range info.Waits {
		switch {
		case w.Kind != "hook":
		case set.yes:
			return cairn.NewHook[Verdict]("sent").Send(ctx, eng, w.Token, Verdict{OK: true, By: "the command line"}, cairn.Key("yes"))
		default:
			fmt.Fprintf(out, "  in another terminal: go run ./examples/agent -db %s -approve %s\n", set.db, w.Token)
		}
	}
	return nil
}

// followLast prints the last conversation, from its beginning and until it has ended, without taking part.
func followLast(ctx context.Context, eng *cairn.Engine, out io.Writer) error {
	page, err := eng.List(ctx, cairn.Filter{Workflow: "agent", NewestFirst: true, Limit: 1})
	if err != nil {
		return err
	}
	if len(page.Runs) == 0 {
		return errors.New("there is no conversation yet")
	}
	return (&printer{out: out}).print(ctx, eng, page.Runs[0].ID)
}
