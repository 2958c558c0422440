package journal

import (
	"strconv"

	"github.com/cairn-workflow/cairn/cairnerr"
)

// incarnation is one of two processes.
func (m *machine) incarnation() ID { return []ID{p1, p2}[m.next(2)] }

// newCommand makes a command out of the next bytes. It is more often sensible than not.
func (m *machine) newCommand(run ID, s *State) *Command {
	cmd := &Command{Namespace: ns, Run: run}
	if s.Run == nil && m.next(8) != 0 {
		m.begin(cmd)
		return cmd
	}
	for range 1 + m.next(3) {
		cmd.Events = append(cmd.Events, m.event(s))
	}
	if m.next(8) == 0 {
		cmd.Events = nil
	}
	cmd.PerEvent = m.next(4) == 0
	switch who := m.next(8); {
	case s.Run == nil || who == 0:
	case who == 1:
		cmd.Guards.Owner = Ownership{Incarnation: m.incarnation(), Epoch: int64(m.next(3))}
	case s.Run.Dialect == Engine && who < 7:
		cmd.Guards.Owner = Ownership{Incarnation: s.Run.Owner, Epoch: s.Run.Epoch}
	}
	switch m.next(12) {
	case 0:
		cmd.Guards.Seq = int64(m.next(10))
	case 1:
		cmd.Guards.Seq = s.Seq
	case 2:
		cmd.Guards.Status = []Status{StatusRunning}
	case 3:
		cmd.Guards.Hook = m.hook()
	case 4:
		m.out.Deliveries[m1] = m.next(2)
		cmd.Guards.Delivery = Delivery{Message: m1, Number: m.next(2)}
	case 5:
		cmd.Lease, cmd.Guards.Owner = LeaseClaim, Ownership{Incarnation: m.incarnation()}
	case 6:
		cmd.Lease = LeaseRelease
	case 7:
		cmd.Lease = LeasePush
	case 8:
		cmd.Lease = LeaseHeed
	}
	return cmd
}

// begin makes a command that creates its run.
func (m *machine) begin(cmd *Command) {
	d := Dialect(m.next(3))
	c := &RunCreated{Workflow: "w", Dialect: d, Spec: specOf(d)}
	switch m.next(6) {
	case 0:
		c.StartKey, c.Input = "key", Payload{byte(m.next(2))}
	case 1:
		c.Attributes = map[string]string{"a": "1"}
	case 2:
		c.StartAt = m.now + 1000
	case 3:
		c.Parent = m.runs[m.next(len(m.runs))]
	case 4:
		m.fork(cmd)
		if len(cmd.Events) > 0 {
			return
		}
	}
	if m.next(3) == 0 {
		cmd.Events = []Event{{Data: &RunStarted{Create: c}}}
	} else {
		cmd.Events = []Event{{Data: c}}
	}
	if d == Engine && m.next(4) != 0 {
		cmd.Guards.Owner = Ownership{Incarnation: m.incarnation(), Epoch: int64(m.next(2))}
		if m.next(2) == 0 {
			cmd.Events = append(cmd.Events, Event{Data: &RunStarted{}})
		}
	}
}

func (m *machine) fork(cmd *Command) {
	source := m.runs[m.next(len(m.runs))]
	if s := m.state[source]; s == nil || s.Run == nil || s.Run.Dialect != Engine {
		return
	}
	dropped := strconv.Itoa(m.next(3))
	fork, err := Fork(ns, m.state[source].Run, 1, m.log[source], cmd.Run, &ForkSpec{Drop: []string{dropped}, NewToken: func() (string, error) { return dropped, nil }})
	if err != nil {
		return // it does not have the key
	}
	fork.Guards.Owner = Ownership{Incarnation: m.incarnation(), Epoch: 1}
	*cmd = *fork
}

func (m *machine) hook() ID { return []ID{h1, h2, testID(33)}[m.next(3)] }

// event makes an event about one of a few entities.
func (m *machine) event(s *State) Event {
	engine := s.Run != nil && s.Run.Dialect == Engine
	// In dialect Engine entities have keys; about one in eight events breaks that rule.
	of := func(entity ID, n int, d Data) Event {
		if engine && m.next(8) != 0 {
			return Event{Key: strconv.Itoa(n), Data: d}
		}
		return Event{Entity: entity, Data: d}
	}
	n := m.next(3)
	step, hook, wait := []ID{s1, s2, testID(23)}[n], []ID{h1, h2, testID(33)}[n], testID(uint32(41+n))
	value := Payload{byte(m.next(2))}
	switch m.next(24) {
	case 0:
		return Event{Data: &RunCompleted{Output: value}}
	case 1:
		return Event{Data: []Data{&RunFailed{Value: value}, &RunCancelled{}, &RunCreated{Workflow: "w"}}[m.next(3)]}
	case 2, 3:
		return Event{Data: &RunStarted{}}
	case 4:
		return of(step, n, &StepCreated{Name: "n", Input: value})
	case 5, 6:
		return of(step, n, &StepStarted{Name: "n", Lazy: m.next(3) == 0, Input: value})
	case 7:
		return of(step, n, &StepRetrying{Error: &cairnerr.Error{Code: "e"}, RetryAfter: m.now + Time(m.next(3)*500)})
	case 8, 9:
		return of(step, n, &StepCompleted{Result: value, Attempt: m.next(3), StartedAt: m.now - 1})
	case 10:
		return of(step, n, &StepFailed{Error: &cairnerr.Error{Message: "x\xff"}, Input: value})
	case 11, 12, 13:
		return of(hook, n, &HookCreated{
			Token: []string{"t", "u"}[m.next(2)], SingleUse: m.next(2) == 0,
			ExpiresAt: []Time{0, m.now + 1000}[m.next(2)], RetainUntil: []Time{0, m.now + 60_000}[m.next(2)],
		})
	case 14, 15:
		return of(hook, n, &HookReceived{Sender: []string{"", "x", "y"}[m.next(3)], Payload: value})
	case 16:
		return of(hook, n, []Data{&HookDisposed{}, &HookReplied{To: int64(m.next(4))}}[m.next(2)])
	case 17:
		return of(wait, n, &WaitCreated{ResumeAt: []Time{0, m.now + 1000}[m.next(2)]})
	case 18:
		return of(wait, n, &WaitCompleted{Result: value})
	case 19:
		return of(a1, n, &AttrSet{Changes: []AttrChange{{Key: []string{"a", "b"}[m.next(2)], Value: "v", Remove: m.next(3) == 0}}})
	case 20:
		return Event{Data: &Annotated{Name: "note", Value: value}}
	case 21:
		return Event{Data: &CancelRequested{Reason: "r"}}
	case 22:
		return Event{Data: []Data{&RunParked{Error: &cairnerr.Error{Code: "e"}}, &RunResumed{}}[m.next(2)]}
	default:
		return Event{Data: []Data{
			&RunStarted{Create: birth(Engine)}, &HookConflict{Token: "t"}, nil, &AttrSet{}, &HookCreated{}, &StepCompleted{Name: "\xff"},
		}[m.next(6)]}
	}
}
