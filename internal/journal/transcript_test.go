package journal

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
)

// Each file of testdata/transcripts is a story: commands, and what became of them. `go test -rewrite` writes the answers anew;
// the difference is to be read.
//
//	run NAME [dialect=world3] [owner=p1] [field=value…]    create a run
//	apply RUN [owner=p1] [epoch=1] [seq=3] [status=running] [hook=h] [lease=claim] [delivery=m:1] [per-event]
//	  event entity field=value…                            one line for each event
//	clock +5s                                              let time pass
//	fence p1, deliver m 2                                  change what is outside the runs
//	events RUN                                             show the journal
//	state RUN                                              show the views
//	fork NEW of=RUN from=KEY                               repeat from a step on
//
// Things have names: runs, processes and messages everywhere; steps, hooks and waits too, which in dialect engine are memo keys.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		t.Helper()
		s := &story{bench: newBench(), ids: map[string]ID{}, names: map[ID]string{}}
		s.self = s.id("p1")
		datadriven.RunTest(t, path, func(t *testing.T, td *datadriven.TestData) string {
			t.Helper()
			return s.command(t, td)
		})
	})
}

// story is the state of a transcript.
type story struct {
	*bench
	ids   map[string]ID
	names map[ID]string
}

// id returns the id that goes with a name.
func (s *story) id(name string) ID {
	id, ok := s.ids[name]
	if !ok {
		id = testID(uint32(len(s.ids) + 1))
		s.ids[name], s.names[id] = id, name
	}
	return id
}

func (s *story) name(id ID) string {
	if name := s.names[id]; name != "" {
		return name
	}
	return id.String()
}

func (s *story) command(t *testing.T, td *datadriven.TestData) string {
	t.Helper()
	switch td.Cmd {
	case "run":
		return s.create(t, td)
	case "apply":
		return s.apply(t, td)
	case "clock":
		d, err := time.ParseDuration(strings.TrimPrefix(td.CmdArgs[0].Key, "+"))
		require.NoError(t, err)
		s.later(d)
		return "now " + s.time(s.now)
	case "fence":
		s.outside.Fenced[s.id(td.CmdArgs[0].Key)] = true
		return "ok"
	case "deliver":
		n, err := strconv.Atoi(td.CmdArgs[1].Key)
		require.NoError(t, err)
		s.outside.Deliveries[s.id(td.CmdArgs[0].Key)] = n
		return "ok"
	case "events":
		var out strings.Builder
		run := s.id(td.CmdArgs[0].Key)
		for i := range s.logs[run] {
			out.WriteString(s.event(s.state(run).Run.Dialect, &s.logs[run][i]))
		}
		return out.String()
	case "state":
		return s.show(s.state(s.id(td.CmdArgs[0].Key)))
	case "fork":
		return s.fork(t, td)
	}
	td.Fatalf(t, "no command %q", td.Cmd)
	return ""
}

// create makes a run from the arguments of its command.
func (s *story) create(t *testing.T, td *datadriven.TestData) string {
	t.Helper()
	c := &RunCreated{Workflow: "checkout"}
	cmd := &Command{Run: s.id(td.CmdArgs[0].Key), Events: []Event{{Data: c}}}
	for _, arg := range td.CmdArgs[1:] {
		switch arg.Key {
		case "dialect":
			c.Dialect = dialectNamed(t, arg.Vals[0])
			c.Spec = specOf(c.Dialect)
		case "owner":
			cmd.Guards.Owner.Incarnation = s.id(arg.Vals[0])
		default:
			s.set(t, c, arg.Key, strings.Join(arg.Vals, ","))
		}
	}
	return s.do(t, cmd)
}

func dialectNamed(t *testing.T, name string) Dialect {
	t.Helper()
	i := slices.Index(dialectNames[:], name)
	require.GreaterOrEqual(t, i, 0, "no dialect %s", name)
	return Dialect(i)
}

func (s *story) apply(t *testing.T, td *datadriven.TestData) string {
	t.Helper()
	cmd := &Command{Run: s.id(td.CmdArgs[0].Key)}
	run := s.state(cmd.Run).Run
	for _, arg := range td.CmdArgs[1:] {
		value := strings.Join(arg.Vals, ",")
		number, _ := strconv.ParseInt(value, 10, 64)
		switch arg.Key {
		case "owner":
			cmd.Guards.Owner.Incarnation = s.id(value)
			if cmd.Guards.Owner.Epoch == 0 && run != nil && run.Owner == s.id(value) {
				cmd.Guards.Owner.Epoch = run.Epoch // who owns the run need not say since when
			}
		case "epoch":
			cmd.Guards.Owner.Epoch = number
		case "seq":
			cmd.Guards.Seq = number
		case "status":
			status, err := ParseStatus(value)
			require.NoError(t, err)
			cmd.Guards.Status = append(cmd.Guards.Status, status)
		case "hook":
			cmd.Guards.Hook = s.id(value)
		case "lease":
			cmd.Lease = map[string]Lease{"claim": LeaseClaim, "release": LeaseRelease, "push": LeasePush, "heed": LeaseHeed}[value]
		case "delivery":
			name, n, _ := strings.Cut(value, ":")
			cmd.Guards.Delivery.Message = s.id(name)
			cmd.Guards.Delivery.Number, _ = strconv.Atoi(n)
		case "per-event":
			cmd.PerEvent = true
		default:
			td.Fatalf(t, "no argument %q", arg.Key)
		}
	}
	for line := range strings.Lines(td.Input) {
		cmd.Events = append(cmd.Events, s.parse(t, cmd.Run, strings.Fields(line)))
	}
	return s.do(t, cmd)
}

// do runs a command and shows what became of it.
func (s *story) do(t *testing.T, cmd *Command) string {
	t.Helper()
	var out strings.Builder
	res, err := s.try(cmd)
	if err != nil {
		fmt.Fprintf(&out, "refused: %s\n", s.refusal(err))
		return out.String()
	}
	if res.Existing {
		fmt.Fprintf(&out, "existing: %s\n", s.name(res.Run.ID))
		return out.String()
	}
	for i := range res.Appended {
		out.WriteString(s.event(res.Run.Dialect, &res.Appended[i]))
	}
	for i, o := range res.Outcomes {
		switch {
		case o.Err != nil:
			fmt.Fprintf(&out, "refused: event %d: %s\n", i+1, s.refusal(o.Err))
		case o.Appended < 0 && o.Seq != 0:
			fmt.Fprintf(&out, "holds: event %d is %d\n", i+1, o.Seq)
		case o.Appended < 0:
			fmt.Fprintf(&out, "holds: event %d\n", i+1)
		}
	}
	for _, run := range res.Effects.Wake {
		fmt.Fprintf(&out, "wake %s\n", s.name(run))
	}
	for _, hook := range res.Effects.Disposed {
		fmt.Fprintf(&out, "disposed %s\n", s.name(hook))
	}
	if done := res.Effects.Done; !done.IsZero() {
		fmt.Fprintf(&out, "done %s\n", s.name(done))
	}
	requireFolds(t, cmd.Run, s.state(cmd.Run), s.logs[cmd.Run])
	if out.Len() == 0 {
		return "ok\n"
	}
	return out.String()
}

// refusal shows an error with names in place of ids.
func (s *story) refusal(err error) string {
	text := fmt.Sprintf("%d %s", cairnerr.AsError(err).Status(), err)
	for id, name := range s.names {
		for _, prefix := range []Prefix{PrefixRun, PrefixStep, PrefixHook, PrefixWait, PrefixAttribute, PrefixMessage, PrefixIncarnation} {
			text = strings.ReplaceAll(text, prefix.Format(id), name)
		}
	}
	return text
}

func (s *story) fork(t *testing.T, td *datadriven.TestData) string {
	t.Helper()
	var of, from string
	td.ScanArgs(t, "of", &of)
	td.ScanArgs(t, "from", &from)
	source, run := s.id(of), s.id(td.CmdArgs[0].Key)
	spec := &ForkSpec{From: from, NewToken: func() (string, error) { return "fresh", nil }}
	cmd, err := Fork(ns, s.state(source).Run, 1, s.logs[source], run, spec)
	if err != nil {
		return "refused: " + s.refusal(err)
	}
	cmd.Guards.Owner, cmd.WakeAt = Ownership{Incarnation: p1, Epoch: 1}, s.now
	for _, e := range cmd.Events[1:] {
		s.names[DeriveID(run, PrefixStep, e.Key)] = e.Key
	}
	return s.do(t, cmd)
}
