package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

func newRuns(s *System) *cobra.Command {
	command := newRunList(s, "runs", "List runs, look at one, or cancel, pause, resume, fork or delete it")
	command.AddCommand(newRunList(s, "list", `List runs: the same as "cairn runs"`), newRunsShow(s), newRunsCancel(s), newRunsTerminate(s), newRunsPause(s),
		newRunsResume(s), newRunsPollNow(s), newRunsFork(s), newRunsDelete(s))
	return command
}

func newRunList(s *System, use, short string) *cobra.Command {
	l := &runList{system: s}
	command := &cobra.Command{
		Use:   use,
		Short: short,
		Long: text(`
			Lists runs, the newest first. It only reads, and so does "runs show". The other commands change a run. They also work
			while no program executes the run; the program then sees the change when it is started.

			Attributes are compared as "runs show" prints them.`) +
			"\n\n" + exitCodes,
		Example: text(`
			  cairn runs
			  cairn runs --status running,pending --workflow checkout --since 24h
			  cairn runs --phase parked
			  cairn runs --workflow checkout --start-key order-17
			  cairn runs --attribute customer=ada --limit 100 --json
			  cairn runs show wrun_01JD0000000000000000000000
			  cairn runs cancel wrun_01JD0000000000000000000000 --reason "the customer changed her mind"`),
		Args: onlyFlags,
		RunE: l.run,
	}
	storeFlag(command, &l.store)
	namespaceFlag(command, &l.namespace)
	flags := command.Flags()
	flags.StringVar(&l.workflow, "workflow", "", "list runs of this `workflow` only")
	flags.StringSliceVar(&l.statuses, "status", nil, "list runs in this `state` only, or these: pending, running, completed, failed, cancelled")
	flags.StringVar(&l.phase, "phase", "", "list runs that are parked, paused or waiting: one `phase`")
	flags.StringVar(&l.startKey, "start-key", "", "list the run of --workflow that was started with this `key`")
	flags.StringArrayVar(&l.attributes, "attribute", nil, "list runs that have this attribute, as `key=value`; if repeated, all must hold")
	flags.Var(&l.since, "since", "list runs that were created in this last `time`: 30m, 24h, 7d")
	flags.IntVar(&l.limit, "limit", 20, "list at most `n` runs, up to 1000")
	flags.StringVar(&l.cursor, "cursor", "", "go on after a page, with the `text` that it printed")
	flags.BoolVar(&l.asJSON, "json", false, "print one JSON object for each run")
	flags.StringVar(&l.parent, "parent", "", "list the children of this `run` only")
	return command
}

// onlyFlags refuses arguments, and guesses what somebody wants who names a run.
func onlyFlags(command *cobra.Command, args []string) error {
	if len(args) > 0 {
		if _, err := parseRun(args[0]); err == nil {
			return fmt.Errorf("to look at one run: %s show %s", command.CommandPath(), args[0])
		}
	}
	return cobra.NoArgs(command, args)
}

// runList lists runs.
type runList struct {
	system           *System
	store, namespace string
	workflow, parent string
	phase, startKey  string
	statuses         []string
	attributes       []string
	since            span
	limit            int
	cursor           string
	asJSON           bool
}

func (l *runList) run(command *cobra.Command, _ []string) error {
	filter, err := l.filter()
	if err == nil && len(l.statuses) == 0 && command.Flags().Changed("status") {
		err = errors.New("--status names no state")
	}
	if err != nil {
		return &usageError{err}
	}
	ctx := command.Context()
	db, err := l.system.openToRead(ctx, l.store)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	list, err := db.Runs(ctx, l.namespace, filter, store.Page{Limit: l.limit, Cursor: l.cursor, Desc: true})
	if cairnerr.CodeOf(err) == cairnerr.CodeMalformed {
		return &usageError{err}
	}
	if err != nil {
		return err
	}
	runs, err := l.withPhase(ctx, db, list.Data)
	if err != nil {
		return err
	}
	if l.asJSON {
		for _, run := range runs {
			l.system.printJSON(newJSONRun(run.Run, run.phase))
		}
	} else {
		l.print(runs)
	}
	if list.HasMore {
		fmt.Fprintf(l.system.Err, "there are more: go on with --cursor %s, or use a larger --limit\n", list.Cursor)
	}
	if len(runs) == 0 && !l.asJSON && !list.HasMore {
		return l.sayNone(ctx, db)
	}
	return nil
}

// listedRun is a run and its phase.
type listedRun struct {
	*journal.Run
	phase string
}

// withPhase returns the runs in the phase that was asked for. The database does not tell paused runs from parked ones:
// their journals do.
func (l *runList) withPhase(ctx context.Context, db store.Store, runs []*journal.Run) (out []listedRun, err error) {
	for _, run := range runs {
		var parked *journal.RunParked
		if run.ParkedAt != 0 {
			j, err := db.Journal(ctx, l.namespace, run.ID, 0)
			if cairnerr.CodeOf(err) == cairnerr.CodeRunNotFound {
				continue // it was deleted
			}
			if err != nil {
				return nil, err
			}
			parked = parkedIn(j.Events)
		}
		if phase := phaseOf(run, parked); l.phase == "" || phase == l.phase {
			out = append(out, listedRun{run, phase})
		}
	}
	return out, nil
}

// parkedIn returns how a run was parked last, nil if it never was.
func parkedIn(events []journal.Event) *journal.RunParked {
	for _, e := range slices.Backward(events) {
		if d, ok := e.Data.(*journal.RunParked); ok {
			return d
		}
	}
	return nil
}

// phaseOf says more about the state of a run that has not ended; "": it is pending, or executed.
func phaseOf(run *journal.Run, parked *journal.RunParked) string {
	switch phase := run.Phase(); {
	case phase == string(cairn.PhaseParked) && parked != nil && parked.Asked:
		return string(cairn.PhasePaused)
	case phase == "" && run.Status == journal.StatusRunning && run.Owner.IsZero():
		return string(cairn.PhaseWaiting)
	default:
		return phase
	}
}

// phases are those that runs can be searched by.
var phases = map[string]store.RunPhase{
	"": store.AnyPhase, string(cairn.PhaseParked): store.PhaseParked, string(cairn.PhasePaused): store.PhaseParked,
	string(cairn.PhaseWaiting): store.PhaseWaiting,
}

func (l *runList) filter() (store.RunFilter, error) {
	f := store.RunFilter{Workflow: l.workflow, StartKey: l.startKey}
	phase, ok := phases[l.phase]
	if f.Phase = phase; !ok {
		return f, fmt.Errorf("--phase %s: want parked, paused or waiting", l.phase)
	}
	if l.startKey != "" && l.workflow == "" {
		return f, errors.New("--start-key needs --workflow: each workflow has its own keys")
	}
	for _, name := range l.statuses {
		status, err := journal.ParseStatus(name)
		if err != nil {
			return f, fmt.Errorf("--status %s: want pending, running (also what is parked or being cancelled), completed, failed or cancelled", name)
		}
		f.Statuses = append(f.Statuses, status)
	}
	for _, pair := range l.attributes {
		key, value, found := strings.Cut(pair, "=")
		if !found || key == "" {
			return f, fmt.Errorf("--attribute %s: want key=value", pair)
		}
		if f.Attributes == nil {
			f.Attributes = map[string]string{}
		}
		if other, twice := f.Attributes[key]; twice && other != value {
			return f, fmt.Errorf("--attribute %s: no run has two values of it", key)
		}
		f.Attributes[key] = value
	}
	if l.parent != "" {
		var err error
		if f.Parent, err = parseRun(l.parent); err != nil {
			return f, err
		}
	}
	if l.limit < 1 || l.limit > store.MaxLimit {
		return f, fmt.Errorf("--limit %d: want 1 to %d", l.limit, store.MaxLimit)
	}
	if l.since > 0 {
		f.CreatedFrom = journal.TimeOf(l.system.Now().Add(-time.Duration(l.since)))
	}
	return f, nil
}

// span is a time that has passed. It is written like a duration, or in days.
type span time.Duration

// Set implements [pflag.Value].
func (s *span) Set(text string) error {
	d, err := time.ParseDuration(text)
	if days, found := strings.CutSuffix(text, "d"); found {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16) // more than a duration can hold is refused
		d = time.Duration(n) * 24 * time.Hour
	}
	if err != nil || d < 0 {
		return errors.New("want a time that has passed, such as 30m, 24h or 7d")
	}
	*s = span(d)
	return nil
}

// String implements [pflag.Value].
func (s *span) String() string { return time.Duration(*s).String() }

// Type implements [pflag.Value].
func (s *span) Type() string { return "time" }

func (l *runList) print(runs []listedRun) {
	if len(runs) == 0 {
		return
	}
	now := journal.TimeOf(l.system.Now())
	table := tabwriter.NewWriter(l.system.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "RUN\tWORKFLOW\tSTATE\tCREATED\tLASTED")
	for _, r := range runs {
		took := lasted(r.CreatedAt, r.CompletedAt, now)
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n",
			journal.PrefixRun.Format(r.ID), printable(r.Workflow), stateOf(r.Run, r.phase), r.CreatedAt, took)
	}
	_ = table.Flush()
}

// sayNone says that there is nothing, and where there may be something.
func (l *runList) sayNone(ctx context.Context, db store.Store) error {
	namespaces, err := db.Namespaces(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(l.system.Err, "no such runs")
	if others := slices.DeleteFunc(namespaces, func(n string) bool { return n == l.namespace }); len(others) > 0 {
		fmt.Fprintf(l.system.Err, "other namespaces have some: --namespace %s\n", printable(strings.Join(others, ", ")))
	}
	return nil
}

// stateOf is the state of a run and, while it goes on, what is special about it.
func stateOf(r *journal.Run, phase string) string {
	if phase != "" {
		return r.Status.String() + " (" + phase + ")"
	}
	return r.Status.String()
}

// lasted writes the time from one moment to another, or until now.
func lasted(from, to, now journal.Time) string {
	if from == 0 {
		return "-"
	}
	if to == 0 {
		to = now
	}
	d := max(to.Std().Sub(from.Std()), 0)
	switch {
	case d >= 48*time.Hour:
		return amount(int(d/(24*time.Hour)), "day")
	case d >= time.Minute:
		return d.Round(time.Second).String()
	default:
		return d.String()
	}
}

// jsonRun is a run for programs.
type jsonRun struct {
	ID         string            `json:"id"`
	Workflow   string            `json:"workflow"`
	Status     string            `json:"status"`
	Phase      string            `json:"phase,omitempty"`
	CreatedAt  string            `json:"createdAt"`
	StartedAt  string            `json:"startedAt,omitempty"`
	EndedAt    string            `json:"endedAt,omitempty"`
	ParentID   string            `json:"parentId,omitempty"`
	RootID     string            `json:"rootId,omitempty"`
	ForkOfID   string            `json:"forkOfId,omitempty"`
	StartKey   string            `json:"startKey,omitempty"`
	Attributes map[string]string `json:"attributes,omitempty"`
}

func newJSONRun(r *journal.Run, phase string) *jsonRun {
	return &jsonRun{
		ID: journal.PrefixRun.Format(r.ID), Workflow: r.Workflow, Status: r.Status.String(), Phase: phase, CreatedAt: r.CreatedAt.String(),
		StartedAt: timeText(r.StartedAt), EndedAt: timeText(r.CompletedAt), ParentID: runText(r.Parent), RootID: runText(r.Root), ForkOfID: runText(r.ForkedFrom),
		StartKey: r.StartKey, Attributes: engine.UserAttributes(r.Attributes),
	}
}

// oneRun wants the id of a run.
func oneRun(command *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("name one run: %s RUN; cairn runs lists them", command.CommandPath())
	}
	return nil
}

// timeText writes a time, "" if there is none.
func timeText(t journal.Time) string {
	if t == 0 {
		return ""
	}
	return t.String()
}

// runText writes the id of a run, "" if there is none.
func runText(id journal.ID) string {
	if id.IsZero() {
		return ""
	}
	return journal.PrefixRun.Format(id)
}

// printJSON prints a value on one line.
func (s *System) printJSON(v any) {
	encoder := json.NewEncoder(s.Out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(v)
}
