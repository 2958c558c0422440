package cairn_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/cairntest"
	"github.com/cairn-workflow/cairn/store/sqlite"
)

// deploy is a change of code: a run that was started by one program goes on in the other one.
type deploy struct {
	was, is program
	out     string // what the run returns, if the new program cannot start one; "": what a new run returns
}

// versionOf makes a program of a workflow that waits for "go" at its end.
func versionOf[In any](in In, fn job[In, string], others ...cairn.Definition) program {
	wf := cairn.NewWorkflow("order", func(ctx cairn.Context, in In) (string, error) {
		out, err := fn(ctx, in)
		if err != nil {
			return "", err
		}
		return out, waitForGo(ctx)
	})
	start := func(t *testing.T, e *cairn.Engine) string {
		t.Helper()
		run, err := wf.Start(t.Context(), e, in)
		require.NoError(t, err)
		return run.ID()
	}
	return program{append(others, wf), start}
}

// part is a piece of workflow code.
type part func(ctx cairn.Context) (string, error)

// version is a program that does some things, one after the other.
func version(parts ...part) program {
	return versionOf("in", func(ctx cairn.Context, _ string) (string, error) {
		var all []string
		for _, p := range parts {
			out, err := p(ctx)
			if err != nil {
				return "", err
			}
			all = append(all, out)
		}
		return strings.Join(all, " "), nil
	})
}

// shows is a body of a step: its result tells what it was done for.
func shows(name string) func(context.Context, string) (string, error) {
	return func(_ context.Context, in string) (string, error) { return name + "(" + in + ")", nil }
}

// does is a defined step with an input.
func does(name, in string, opts ...cairn.StepOption) part {
	return func(ctx cairn.Context) (string, error) { return cairn.NewStep(name, shows(name)).Do(ctx, in, opts...) }
}

// inline is a step without an input.
func inline(name, in string, opts ...cairn.StepOption) part {
	return func(ctx cairn.Context) (string, error) {
		return cairn.Do(ctx, name, func(ctx context.Context) (string, error) { return shows(name)(ctx, in) }, opts...)
	}
}

// nap is a short sleep.
func nap(d time.Duration, opts ...cairn.TimerOption) part {
	return func(ctx cairn.Context) (string, error) { return "", cairn.Sleep(ctx, d, opts...) }
}

// napUntil is a sleep that is over already.
func napUntil(minute int) part {
	return func(ctx cairn.Context) (string, error) {
		return "", cairn.SleepUntil(ctx, time.Date(2020, 1, 1, 0, minute, 0, 0, time.UTC))
	}
}

// limits is a step under a deadline.
func limits(d time.Duration) part {
	return func(ctx cairn.Context) (string, error) {
		limited, stop := cairn.WithTimeout(ctx, d)
		defer stop()
		return does("a", "1")(limited)
	}
}

// each does a part for each item.
func each(items string, of func(item string) part) program {
	var parts []part
	for _, item := range items {
		parts = append(parts, of(string(item)))
	}
	return version(parts...)
}

// maps is a map over items.
func maps(items string, opts ...cairn.MapOption) program {
	return version(func(ctx cairn.Context) (string, error) {
		out, err := cairn.Map(ctx, "item", strings.Split(items, ""), 0, func(ctx cairn.Context, item string) (string, error) {
			return inline("a", item)(ctx)
		}, opts...)
		return strings.Join(out, " "), err
	})
}

// loops are the ways to do something for each item.
func loops() map[string]func(items string) program {
	itself := cairn.KeyBy(func(item string) string { return item })
	return map[string]func(string) program{
		"inline steps": func(items string) program {
			return each(items, func(item string) part { return inline("a", item) })
		},
		"inline steps with keys": func(items string) program {
			return each(items, func(item string) part { return inline("a", item, cairn.Key(item)) })
		},
		"defined steps": func(items string) program {
			return each(items, func(item string) part { return does("a", item) })
		},
		"defined steps with keys": func(items string) program {
			return each(items, func(item string) part { return does("a", item, cairn.Key(item)) })
		},
		"children":           func(items string) program { return childOf(strings.Split(items, "")...) },
		"polls":              func(items string) program { return polls(strings.Split(items, "")...) },
		"`Map`":              func(items string) program { return maps(items) },
		"`Map` with `KeyBy`": func(items string) program { return maps(items, itself) },
	}
}

// race is a race between branches.
func race(names ...string) part {
	return func(ctx cairn.Context) (string, error) {
		var futures []*cairn.Future[string]
		for _, name := range names {
			d := time.Hour
			if name == "fast" {
				d = time.Millisecond
			}
			f, err := racer(ctx, name, d, cairn.NewStep("a", shows("a")))
			if err != nil {
				return "", err
			}
			futures = append(futures, f)
		}
		return cairn.Race(ctx, futures...)
	}
}

// reads waits for a value of the hook "mail".
func reads[T any](show func(T) string) part {
	return func(ctx cairn.Context) (string, error) {
		v, err := cairn.NewHook[T]("mail").Token("mail").Wait(ctx)
		return show(v), err
	}
}

type (
	itemV1 struct{ Name string }
	itemV2 struct {
		Name string
		Note string
	}
)

// doesWith is a defined step with a structured input.
func doesWith[In any](in In, opts ...cairn.StepOption) part {
	return func(ctx cairn.Context) (string, error) {
		return cairn.NewStep("a", func(context.Context, In) (string, error) { return "a", nil }).Do(ctx, in, opts...)
	}
}

// returns is a step whose result has a type.
func returns[T any](v T) part {
	return func(ctx cairn.Context) (string, error) {
		_, err := cairn.Do(ctx, "a", func(context.Context) (T, error) { return v, nil })
		return "", err
	}
}

// begins is a program whose workflow has an input of a type.
func begins[In any](in In) program {
	return versionOf(in, func(ctx cairn.Context, _ In) (string, error) { return does("a", "1")(ctx) })
}

// calls is a program whose workflow runs a child.
func calls(kid *cairn.Workflow[string, string], others ...cairn.Definition) program {
	return versionOf("in", plain(kid.Run), others...)
}

// childOf is a program whose workflow gives children inputs.
func childOf[In any](inputs ...In) program {
	kid := cairn.NewWorkflow("kid", func(_ cairn.Context, in In) (string, error) { return fmt.Sprint(in), nil })
	program := version(eachOf(inputs, func(ctx cairn.Context, in In) (string, error) { return kid.Run(ctx, in) })...)
	program.definitions = append(program.definitions, kid)
	return program
}

// polls looks for things, one after the other.
func polls[In any](inputs ...In) program {
	look := cairn.NewPoll("look", time.Minute, func(_ context.Context, in In) (string, bool, error) { return fmt.Sprint(in), true, nil })
	return version(eachOf(inputs, func(ctx cairn.Context, in In) (string, error) { return look.Wait(ctx, in) })...)
}

// eachOf does something for each item.
func eachOf[In any](items []In, do func(cairn.Context, In) (string, error)) (parts []part) {
	for _, in := range items {
		parts = append(parts, func(ctx cairn.Context) (string, error) { return do(ctx, in) })
	}
	return parts
}

// mailWithin waits for a value of the hook "mail", but not for ever.
func mailWithin(d time.Duration) part {
	return func(ctx cairn.Context) (string, error) {
		return cairn.NewHook[string]("mail").Token("mail").Wait(ctx, cairn.Timeout(d))
	}
}

// allDeploys are the rows of the table in docs/guide/changing-code.md.
func allDeploys() map[string]deploy {
	a, b, c := does("a", "1"), does("b", "1"), does("c", "1")
	kid := cairn.NewWorkflow("kid", func(cairn.Context, string) (string, error) { return "kid", nil })
	numberKid := cairn.NewWorkflow("kid", func(cairn.Context, string) (int, error) { return 1, nil })
	heir := cairn.NewWorkflow("order 2", func(cairn.Context, string) (string, error) { return "", nil })
	all := map[string]deploy{
		"change a child's input": {was: childOf("1"), is: childOf("2")},
		"retype a child's result": {
			was: calls(kid, kid),
			is: versionOf("in", func(ctx cairn.Context, in string) (string, error) {
				_, err := numberKid.Run(ctx, in)
				return "", err
			}, numberKid),
		},
		"change a poll's input":  {was: polls("1"), is: polls("2")},
		"retype a child's input": {was: childOf("1"), is: childOf(1)},
		"retype a poll's input":  {was: polls("text"), is: polls(1)},
		"add a field to the input of children in a loop": {
			was: childOf(itemV1{"x"}, itemV1{"y"}),
			is:  childOf(itemV2{Name: "x"}, itemV2{Name: "y"}),
			out: "{x} {y}",
		},
		"add a field to the input of polls in a loop": {
			was: polls(itemV1{"x"}, itemV1{"y"}),
			is:  polls(itemV2{Name: "x"}, itemV2{Name: "y"}),
			out: "{x} {y}",
		},
		"change the `Timeout` of a hook's wait": {was: version(mailWithin(time.Hour)), is: version(mailWithin(time.Minute))},
		"add a step":                            {was: version(a), is: version(b, a, c)},
		"remove a step":                         {was: version(a, b), is: version(b)},
		"reorder steps of different names":      {was: version(a, b), is: version(b, a)},
		"rename a step":                         {was: version(a), is: version(b)},
		"change a step's input":                 {was: version(a), is: version(does("a", "2"))},
		"change a step's input; it has a key": {
			was: version(does("a", "1", cairn.Key("k"))),
			is:  version(does("a", "2", cairn.Key("k"))),
		},
		"change a step's timeout or retries": {
			was: version(a),
			is:  version(does("a", "1", cairn.Timeout(time.Hour), cairn.Retry(often))),
		},
		"retype a step's result": {was: version(returns("text")), is: version(returns(1))},
		"retype a step's input":  {was: version(doesWith("text")), is: version(doesWith(1))},
		"retype the run's input": {was: begins("text"), is: begins(1)},
		"retype a hook's value that has come": {
			was: version(reads(func(s string) string { return s })),
			is:  version(reads(func(int) string { return "" })),
		},
		"add a field to a step's result": {
			was: version(returns(itemV1{"x"})),
			is:  version(returns(itemV2{Name: "x"})),
		},
		"add a field to a step's input": {
			was: version(doesWith(itemV1{"x"})),
			is:  version(doesWith(itemV2{Name: "x"})),
		},
		"add a field to the input in a loop": {
			was: version(doesWith(itemV1{"x"}), doesWith(itemV1{"y"})),
			is:  version(doesWith(itemV2{Name: "x"}), doesWith(itemV2{Name: "y"})),
		},
		"add a field to the run's input": {was: begins(itemV1{"x"}), is: begins(itemV2{Name: "x"})},
		"remove a field from a step's input": {
			was: version(doesWith(itemV2{"x", ""})),
			is:  version(doesWith(itemV1{"x"})),
		},
		"another kind under a name": {
			was: version(a),
			is: version(func(ctx cairn.Context) (string, error) {
				_, err := cairn.NewHook[int]("a").Open(ctx)
				return "", err
			}),
		},
		"add a sleep": {was: version(a), is: version(a, nap(time.Millisecond))},
		"insert a sleep before another": {
			was: version(nap(2 * time.Millisecond)),
			is:  version(nap(time.Millisecond), nap(2*time.Millisecond)),
		},
		"insert a sleep before another, with keys": {
			was: version(nap(2*time.Millisecond, cairn.Key("k"))),
			is:  version(nap(time.Millisecond, cairn.Key("j")), nap(2*time.Millisecond, cairn.Key("k"))),
		},
		"insert a `SleepUntil` before another": {was: version(napUntil(2)), is: version(napUntil(1), napUntil(2))},
		"change a sleep": {
			was: version(nap(2 * time.Millisecond)),
			is:  version(nap(3 * time.Millisecond)),
		},
		"remove a sleep":                       {was: version(a, nap(time.Millisecond)), is: version(a)},
		"change the duration of `WithTimeout`": {was: version(limits(time.Hour)), is: version(limits(time.Minute))},
		"remove the branch that won a race":    {was: version(race("fast", "slow")), is: version(race("slow"))},
		"remove a branch that lost a race":     {was: version(race("fast", "slow")), is: version(race("fast"))},
		"add a branch to a race": {
			was: version(race("fast", "slow")),
			is:  version(race("fast", "slow", "new")),
		},
		"rename the workflow":                    {was: version(a), is: program{definitions: []cairn.Definition{heir}}},
		"do not register a child that has ended": {was: calls(kid, kid), is: calls(kid), out: "kid"},
		"do not register a child that is added":  {was: version(a), is: calls(kid)},
	}
	changes := map[string]string{
		"append an item": "abx", "insert an item": "xab", "remove an item": "b",
		"replace an item": "xb", "reorder the items": "ba",
	}
	for loop, of := range loops() {
		for what, items := range changes {
			all["loop of "+loop+": "+what] = deploy{was: of("ab"), is: of(items)}
		}
		all["loop of "+loop+": insert an item before the only one"] = deploy{was: of("a"), is: of("xa")}
	}
	return all
}

// drift is whether a warning was logged.
func (w *warnings) drift() bool {
	for _, m := range w.messages() {
		if strings.Contains(m, "its record is used") {
			return true
		}
	}
	return false
}

// effect executes a deploy, and says what it does to a run, in the words of the table. It also returns the run as it
// was before.
func (d *deploy) effect(t *testing.T, strict bool) (effect string, recorded []byte) {
	t.Helper()
	st, err := sqlite.Memory(t.Context(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = st.Close() })
	engine := func(cfg cairn.Config, p *program) *cairn.Engine {
		cfg.Poll = 5 * time.Millisecond
		e, err := cairn.NewWith(t.Context(), st, cfg, p.definitions...)
		require.NoError(t, err)
		return e
	}
	e := engine(quiet("was"), &d.was)
	run := d.was.start(t, e)
	mail(t, e, run)
	waitsFor(t, e, run, "go")
	var file bytes.Buffer
	require.NoError(t, e.Run(run).Export(t.Context(), &file))
	stop(e)

	var logged warnings
	e = engine(cairn.Config{Build: "is", Strict: strict, Logger: slog.New(&logged)}, &d.is)
	defer stop(e)
	require.NoError(t, cairn.NewHook[string]("go").Send(t.Context(), e, "go", "!"))
	if d.is.start == nil { // nobody executes it
		time.Sleep(100 * time.Millisecond)
		info, err := e.Run(run).Describe(t.Context())
		require.NoError(t, err)
		require.Equal(t, cairn.StatusRunning, info.Status)
		require.NotEqual(t, cairn.PhaseParked, info.Phase)
		return "waits", file.Bytes()
	}
	var info *cairn.RunInfo
	eventually(t, e, run, func(now *cairn.RunInfo) bool {
		info = now
		return now.Phase == cairn.PhaseParked || now.Status == cairn.StatusCompleted || now.Status == cairn.StatusFailed
	})
	if info.Phase == cairn.PhaseParked {
		return "parked: `" + string(info.Error.Code) + "`", file.Bytes()
	}
	require.Equal(t, cairn.StatusCompleted, info.Status, info.Error)
	var out string
	require.NoError(t, info.Output(&out))
	switch {
	case logged.drift():
		return "logged", file.Bytes()
	case out == d.wanted(t):
		return "goes on", file.Bytes()
	default:
		return "not noticed", file.Bytes()
	}
}

// mail sends a value to the hook "mail", if the run has one.
func mail(t *testing.T, e *cairn.Engine, run string) {
	t.Helper()
	eventually(t, e, run, func(info *cairn.RunInfo) bool {
		for _, w := range info.Waits {
			if w.Token == "mail" {
				require.NoError(t, cairn.NewHook[string]("mail").Send(t.Context(), e, "mail", "text"))
			}
			if w.Token == "mail" || w.Token == "go" {
				return true
			}
		}
		return false
	})
}

// fresh returns what a program makes of a new run.
func (p *program) fresh(t *testing.T) string {
	t.Helper()
	e := memory(t, cairn.Config{Poll: 5 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)}, p.definitions...)
	run := p.start(t, e)
	mail(t, e, run)
	waitsFor(t, e, run, "go")
	require.NoError(t, cairn.NewHook[string]("go").Send(t.Context(), e, "go", "!"))
	info, err := e.Run(run).Wait(within(t))
	require.NoError(t, err)
	var out string
	require.NoError(t, info.Output(&out))
	return out
}

// wanted returns what the run should return if all is well.
func (d *deploy) wanted(t *testing.T) string {
	t.Helper()
	if d.out != "" {
		return d.out
	}
	return d.is.fresh(t)
}

// shown says whether a replay shows a difference, in the words of the table.
func (d *deploy) shown(t *testing.T, recorded []byte) string {
	t.Helper()
	if err := cairntest.ReplayFrom(within(t), bytes.NewReader(recorded), d.is.definitions...); err != nil {
		return "shown"
	}
	return "–"
}

const headOfChanges = "\n| change | runs under way | with `Strict` | `cairntest.Replay` |\n|---|---|---|---|\n"

// tableOfChanges reads the table of docs/guide/changing-code.md: the cells after the first one, by that.
func tableOfChanges(t *testing.T) map[string][]string {
	t.Helper()
	page, err := os.ReadFile("docs/guide/changing-code.md")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(page), headOfChanges)
	require.True(t, found, "the page has no table of changes")
	rows := map[string][]string{}
	for line := range strings.Lines(rest) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 4 {
			break
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		require.NotContains(t, rows, cells[0], "listed twice")
		rows[cells[0]] = cells[1:]
	}
	return rows
}

// TestDeploy_EachChange_DoesWhatTheGuideSays holds the table of the guide against the engine, cell by cell.
func TestDeploy_EachChange_DoesWhatTheGuideSays(t *testing.T) {
	t.Parallel()
	rows, changes := tableOfChanges(t), allDeploys()
	for name := range rows {
		require.Contains(t, changes, name, "the guide has a change that is not tested")
	}
	for name, d := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			loose, recorded := d.effect(t, false)
			strict, _ := d.effect(t, true)
			wanted := rows[name]
			require.Equal(t, wanted, []string{loose, strict, d.shown(t, recorded)})
		})
	}
}

// A start is repeated by a newer program, whose input has one more field: it is the same start, unless that field is used.
func TestStart_RepeatedWithAnAddedField_IsNoConflict(t *testing.T) {
	t.Parallel()
	onEveryStoreWith(t, func(t *testing.T, open configured) {
		t.Helper()
		was := cairn.NewWorkflow("w", func(ctx cairn.Context, _ itemV1) (string, error) { return "", waitForGo(ctx) })
		is := cairn.NewWorkflow("w", func(ctx cairn.Context, _ itemV2) (string, error) { return "", waitForGo(ctx) })
		e := open(quiet("was"), was)
		first, err := was.Start(t.Context(), e, itemV1{"x"}, cairn.Key("k"))
		require.NoError(t, err)
		stop(e)
		e = open(quiet("is"), is)
		again, err := is.Start(t.Context(), e, itemV2{Name: "x"}, cairn.Key("k"))
		require.NoError(t, err)
		require.Equal(t, first.ID(), again.ID())
		_, err = is.Start(t.Context(), e, itemV2{Name: "x", Note: "new"}, cairn.Key("k"))
		requireCode(t, "start_key_conflict", err)
		_, err = is.Start(t.Context(), e, itemV2{Name: "y"}, cairn.Key("k"))
		requireCode(t, "start_key_conflict", err)
	})
}
