// Command approval asks a person, and waits for the answer, but not for ever.
//
//	go run ./examples/approval                           # asks, and shows the token
//	go run ./examples/approval -approve TOKEN -by Grace  # in a second terminal; or -reject TOKEN
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

func main() { program.Main("approval", run) }

const defaultDB = "approval.db"

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	began := time.Now()
	flags := flag.NewFlagSet("approval", flag.ExitOnError)
	db := flags.String("db", defaultDB, "where the requests are kept: a SQLite file, or postgres://…")
	timeout := flags.Duration("timeout", 30*time.Second, "how long each of those who are asked has time to answer")
	approve := flags.String("approve", "", "say yes to the question with this `token`, and do nothing else")
	reject := flags.String("reject", "", "say no to the question with this `token`, and do nothing else")
	by := flags.String("by", cmp.Or(os.Getenv("USER"), "somebody"), "who you are, when you approve or reject")
	if err := flags.Parse(args); err != nil {
		return err
	}
	st, err := open.URL(ctx, *db)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, st.Close()) }()
	if token := cmp.Or(*approve, *reject); token != "" {
		return answer(ctx, st, token, Answer{Approved: *approve != "", By: *by}, out)
	}

	d := newDesk(*timeout, *timeout)
	watch := func(eng *cairn.Engine) error { return d.startAndWatch(ctx, eng, began, *db, out) }
	return program.WithEngine(ctx, st, program.Lease, []cairn.Definition{d.workflow}, watch, out, "The question can still be answered; start it again, and it goes on.")
}

func (d *desk) startAndWatch(ctx context.Context, eng *cairn.Engine, began time.Time, db string, out io.Writer) error {
	number, unfinished, err := show.Next(ctx, eng, began, cairn.Filter{Workflow: d.workflow.Name()})
	if err != nil {
		return err
	}
	// The start key makes it safe to repeat: a request that was started before is found by it.
	e := expense(number)
	r, err := d.workflow.Start(ctx, eng, e, cairn.Key(fmt.Sprint("expense ", number)),
		cairn.Attributes(map[string]string{show.Number: strconv.Itoa(number)}))
	if err != nil {
		return err
	}
	if unfinished {
		fmt.Fprint(out, "Going on with ")
	}
	fmt.Fprintf(out, "%s\n\n", e)
	if err := show.Resume(ctx, eng, r.ID()); err != nil {
		return err
	}
	options := show.Options{Hints: func(w cairn.Wait) []string { return hints(w, db) }}
	if err := show.Watch(ctx, eng, out, options, r.ID()); err != nil {
		return err
	}
	decision, err := r.Result(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%s\n%s, at %s\n", decision.Expense, decision, decision.At.Local().Format(time.TimeOnly))
	return nil
}

// expense makes up a request.
func expense(number int) Expense {
	things := []Expense{
		{Who: "Ada", What: "a book about looms", Cents: 4250},
		{Who: "Alan", What: "a bicycle chain", Cents: 1890},
		{Who: "Barbara", What: "a jar of ink", Cents: 995},
	}
	e := things[(number-1)%len(things)]
	e.Number = number
	return e
}

// hints tell a person how to answer.
func hints(w cairn.Wait, db string) []string {
	if w.Kind != "hook" {
		return nil
	}
	command := "go run ./examples/approval"
	if db != defaultDB {
		command += " -db " + db
	}
	return []string{"in another terminal: " + command + " -approve " + w.Token, "                 or: " + command + " -reject " + w.Token}
}

// answer sends an answer. This process has no workflows: it writes the answer down, and whatever process has the workflow goes on with it.
func answer(ctx context.Context, st cairn.Store, token string, a Answer, out io.Writer) error {
	eng, err := cairn.New(ctx, st)
	if err != nil {
		return err
	}
	defer eng.Stop(context.WithoutCancel(ctx)) //nolint:errcheck // it has nothing to lose

	hook, err := eng.HookInfo(ctx, token)
	if err != nil {
		return fmt.Errorf("nobody waits for this answer (any more): %w", err)
	}
	var q Question
	if err := hook.Metadata(&q); err != nil {
		return err
	}
	fmt.Fprintln(out, q.Expense)

	// With a key it can be repeated: the same answer of the same person is received once.
	within, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	reply, err := answerHook("desk").Ask(within, eng, token, a, cairn.Key("answer of "+a.By))
	switch {
	case err == nil:
		fmt.Fprintln(out, reply)
	case errors.Is(err, context.DeadlineExceeded):
		fmt.Fprintln(out, "your answer is written down; it counts as soon as the workflow goes on")
	default:
		return err
	}
	return nil
}
