package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

func newRunsShow(s *System) *cobra.Command {
	r := &runShow{system: s}
	command := &cobra.Command{
		Use:   "show RUN",
		Short: "Show what a run is, what it waits for, and its steps",
		Long: text(`
			Shows the state of a run, what it waits for, why it failed or is parked, and its last steps. It only reads, and needs no
			program that executes the run. The tokens of hooks are shown: anybody who has a token can send to its hook.

			"cairn export" has the whole history, "cairn logs" the log lines.`) +
			"\n\n" + exitCodes,
		Example: text(`
			  cairn runs show wrun_01JD0000000000000000000000
			  cairn runs show wrun_01JD0000000000000000000000 --steps 1000 --json`),
		Args: oneRun,
		RunE: r.run,
	}
	storeFlag(command, &r.store)
	namespaceFlag(command, &r.namespace)
	command.Flags().IntVar(&r.steps, "steps", 20, "show the last `n` steps, up to 1000; 0: none")
	command.Flags().BoolVar(&r.asJSON, "json", false, "print one JSON object")
	return command
}

// runShow shows one run.
type runShow struct {
	system           *System
	store, namespace string
	steps            int
	asJSON           bool
}

// shownRun is all that is shown of a run.
type shownRun struct {
	run     *journal.Run
	waits   []engine.WaitingFor
	phase   string
	problem *cairnerr.Error          // why it failed, or is parked
	stop    *journal.CancelRequested // who asked it to stop, and why; nil: nobody did
	parked  *journal.RunParked       // nil: it is neither parked nor paused
	steps   []*journal.Step
	earlier bool // there are steps before those
}

func (r *runShow) run(command *cobra.Command, args []string) error {
	id, err := parseRun(args[0])
	if err != nil {
		return err
	}
	if r.steps < 0 || r.steps > store.MaxLimit {
		return &usageError{fmt.Errorf("--steps %d: want 0 to %d", r.steps, store.MaxLimit)}
	}
	ctx := command.Context()
	db, err := r.system.openToRead(ctx, r.store)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	shown, err := r.read(ctx, db, id)
	if err != nil {
		return err
	}
	if r.asJSON {
		r.system.printJSON(newJSONShown(shown))
		return nil
	}
	r.print(shown)
	return nil
}

func (r *runShow) read(ctx context.Context, db store.Store, id journal.ID) (*shownRun, error) {
	j, err := db.Journal(ctx, r.namespace, id, 0)
	if err != nil {
		return nil, err
	}
	if len(j.Events) == 0 {
		return nil, cairnerr.Errorf(cairnerr.CodeCorrupt, "%s has no events", journal.PrefixRun.Format(id))
	}
	shown := &shownRun{stop: stopOf(j.Events)}
	if shown.run, err = db.Run(ctx, r.namespace, id, store.ResolveAll); err != nil {
		return nil, err
	}
	if !shown.run.Status.Terminal() { // it may have ended since
		now := engine.SituationIn(j, journal.TimeOf(r.system.Now()))
		if shown.waits = now.Waits; now.Parked != nil {
			shown.problem = now.Parked.Error
		}
	}
	if shown.run.ParkedAt != 0 && !shown.run.Status.Terminal() {
		shown.parked = parkedIn(j.Events)
	}
	shown.phase = phaseOf(shown.run, shown.parked)
	if failure := engine.FailureOf(shown.run); failure != nil {
		shown.problem = failure
	}
	if r.steps == 0 {
		return shown, nil
	}
	steps, err := db.Steps(ctx, r.namespace, id, store.ResolveAll, store.Page{Limit: r.steps, Desc: true})
	if err != nil {
		return nil, err
	}
	slices.Reverse(steps.Data)
	for _, s := range steps.Data {
		correct(s, shown.run, j.Events)
	}
	shown.steps, shown.earlier = steps.Data, steps.HasMore
	return shown, nil
}

// stopOf returns who asked a run to stop, or ended it.
func stopOf(events []journal.Event) *journal.CancelRequested {
	for _, e := range slices.Backward(events) {
		switch d := e.Data.(type) {
		case *journal.CancelRequested:
			return d
		case *journal.RunCancelled:
			return &journal.CancelRequested{Reason: d.Reason, Actor: d.Actor}
		}
	}
	return nil
}

// why returns why, and by whom, a run is parked or paused, is asked to stop, or was cancelled.
func (s *shownRun) why() (reason, actor string) {
	switch {
	case s.parked != nil && s.parked.Error != nil:
		return s.parked.Error.Message, s.parked.Actor
	case s.parked != nil:
		return "", s.parked.Actor
	case s.stop != nil:
		return s.stop.Reason, s.stop.Actor
	}
	return "", ""
}

// next says how a run that rests goes on, "" if it does not rest.
func (s *shownRun) next() string {
	resume := "cairn runs resume " + journal.PrefixRun.Format(s.run.ID)
	switch s.phase {
	case string(cairn.PhasePaused):
		return resume
	case string(cairn.PhaseParked):
		return "correct the program, start it, and run: " + resume
	}
	return ""
}

// cleanUp returns what the clean-up of a cancelled run returned, nil: nothing.
func (s *shownRun) cleanUp() *cairnerr.Error {
	if s.run.Cancelled == nil {
		return nil
	}
	return s.run.Cancelled.Error
}

// correct makes a step that people look at. When one ended that a fork has kept, or that was written down later, its outcome says; and one that its run has
// left behind does not go on.
func correct(s *journal.Step, run *journal.Run, events []journal.Event) {
	if i := s.LastSeq - 1; i >= 0 && i < int64(len(events)) {
		outcome, over := events[i].Data.(interface{ EndedAt() journal.Time })
		if over && outcome.EndedAt() != 0 {
			s.CompletedAt = outcome.EndedAt()
		}
	}
	if run.Status.Terminal() && !s.Status.Terminal() {
		s.Status, s.CompletedAt = journal.StatusCancelled, run.CompletedAt
	}
}

func (r *runShow) print(shown *shownRun) {
	run, now := shown.run, journal.TimeOf(r.system.Now())
	out := tabwriter.NewWriter(r.system.Out, 0, 0, 2, ' ', 0)
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(out, "%s\t%s\n", name, printable(value))
		}
	}
	line("run", journal.PrefixRun.Format(run.ID))
	line("workflow", run.Workflow)
	line("state", stateOf(run, shown.phase))
	line("created", run.CreatedAt.String())
	line("started", timeText(run.StartedAt))
	line("ended", timeText(run.CompletedAt))
	line("lasted", lasted(run.CreatedAt, run.CompletedAt, now))
	line("parent", runText(run.Parent))
	line("fork of", runText(run.ForkedFrom))
	line("start key", run.StartKey)
	attributes := engine.UserAttributes(run.Attributes)
	for _, key := range slices.Sorted(maps.Keys(attributes)) {
		line("attribute", key+"="+attributes[key])
	}
	printWhy(shown, line)
	for i := range shown.waits {
		line("waits for", waitText(&shown.waits[i]))
	}
	_ = out.Flush()
	r.printSteps(shown, now)
	r.printStack(shown)
}

// printStack prints where the code of a parked run was.
func (r *runShow) printStack(shown *shownRun) {
	if shown.problem == nil || shown.problem.Stack == "" || shown.phase != string(cairn.PhaseParked) {
		return
	}
	fmt.Fprintln(r.system.Out, "\nSTACK")
	for text := range strings.Lines(shown.problem.Stack) {
		indent := len(text) - len(strings.TrimLeft(text, "\t"))
		fmt.Fprintln(r.system.Out, strings.Repeat("  ", indent)+printable(strings.TrimSpace(text)))
	}
}

// printWhy prints why a run is as it is, and what to do about it.
func printWhy(shown *shownRun, line func(name, value string)) {
	reason, actor := shown.why()
	switch problem := shown.problem; {
	case problem == nil || shown.phase == string(cairn.PhasePaused):
		line("reason", reason)
	case shown.phase == string(cairn.PhaseParked):
		line("reason", problem.Error())                                 // with its code
		for _, key := range slices.Sorted(maps.Keys(problem.Details)) { // the place, what is recorded there, what is wanted
			line(key, problem.Details[key])
		}
	default:
		line("reason", reason)
		line("error", problem.Error())
	}
	line("actor", actor)
	if e := shown.cleanUp(); e != nil {
		line("clean-up", e.Error())
	}
	line("next", shown.next())
}

// waitText says what a run waits for.
func waitText(w *engine.WaitingFor) string {
	parts := []string{cmp.Or(w.Kind, "sleep")}
	if w.Key != "" {
		parts = append(parts, w.Key)
	}
	if w.Until != 0 {
		parts = append(parts, "until "+w.Until.String())
	}
	if w.Token != "" {
		parts = append(parts, "token "+w.Token)
	}
	if !w.Child.IsZero() {
		parts = append(parts, runText(w.Child))
	}
	if w.Error != nil {
		parts = append(parts, "after "+w.Error.Error())
	}
	return strings.Join(parts, ", ")
}

func (r *runShow) printSteps(shown *shownRun, now journal.Time) {
	if len(shown.steps) == 0 {
		return
	}
	fmt.Fprintln(r.system.Out)
	if shown.earlier {
		fmt.Fprintf(r.system.Out, "the last %s; --steps shows more\n", amount(len(shown.steps), "step"))
	}
	table := tabwriter.NewWriter(r.system.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "STEP\tSTATE\tATTEMPT\tENDED\tLASTED\tERROR")
	for _, s := range shown.steps {
		problem := "-"
		if s.Error != nil && s.Status != journal.StatusCompleted {
			problem = s.Error.Error()
		}
		ended := timeText(s.CompletedAt)
		if ended == "" {
			ended = "-"
		}
		attempt := "-" // it has not begun
		if s.Attempt > 0 {
			attempt = strconv.Itoa(s.Attempt)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", printable(stepKey(s)), s.Status, attempt, ended, lasted(s.StartedAt, s.CompletedAt, now), printable(problem))
	}
	_ = table.Flush()
}

// stepKey names a step as a fork does.
func stepKey(s *journal.Step) string {
	if s.Key != "" {
		return s.Key
	}
	return s.Name
}

// jsonShown is a run with all that is shown of it, for programs.
type jsonShown struct {
	*jsonRun

	Reason  string     `json:"reason,omitempty"`
	Actor   string     `json:"actor,omitempty"`
	Error   *jsonError `json:"error,omitempty"`
	Stack   string     `json:"stack,omitempty"` // of the error
	CleanUp *jsonError `json:"cleanUp,omitempty"`
	Waits   []jsonWait `json:"waits,omitempty"`
	Steps   []jsonStep `json:"steps,omitempty"`
}

type jsonError struct {
	Code    string            `json:"code"`
	Message string            `json:"message"`
	Details map[string]string `json:"details,omitempty"`
}

type jsonWait struct {
	Kind    string     `json:"kind"`
	Key     string     `json:"key,omitempty"`
	Until   string     `json:"until,omitempty"`
	Token   string     `json:"token,omitempty"`
	ChildID string     `json:"child_id,omitempty"`
	Error   *jsonError `json:"error,omitempty"`
}

type jsonStep struct {
	Key       string     `json:"key"`
	Name      string     `json:"name"`
	Status    string     `json:"status"`
	Attempt   int        `json:"attempt"`
	StartedAt string     `json:"started_at,omitempty"`
	EndedAt   string     `json:"ended_at,omitempty"`
	Error     *jsonError `json:"error,omitempty"`
}

func newJSONError(e *cairnerr.Error) *jsonError {
	if e == nil {
		return nil
	}
	return &jsonError{string(e.Code), e.Message, e.Details}
}

func newJSONShown(shown *shownRun) *jsonShown {
	out := &jsonShown{
		jsonRun: newJSONRun(shown.run, shown.phase), Error: newJSONError(shown.problem), CleanUp: newJSONError(shown.cleanUp()),
	}
	out.Reason, out.Actor = shown.why()
	if shown.problem != nil {
		out.Stack = shown.problem.Stack
	}
	for _, w := range shown.waits {
		out.Waits = append(out.Waits, jsonWait{w.Kind, w.Key, timeText(w.Until), w.Token, runText(w.Child), newJSONError(w.Error)})
	}
	for _, s := range shown.steps {
		out.Steps = append(out.Steps, jsonStep{stepKey(s), s.Name, s.Status.String(), s.Attempt, timeText(s.StartedAt), timeText(s.CompletedAt), newJSONError(s.Error)})
	}
	return out
}
