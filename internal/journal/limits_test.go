package journal

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
)

func TestRunIDTime(t *testing.T) {
	t.Parallel()
	const minute, day = Time(60_000), Time(24 * 60 * 60_000)
	for _, d := range []Dialect{World3, World6} {
		for made, ok := range map[Time]bool{
			t0: true, t0 - day: true, t0 - day - 1: false, t0 + 5*minute: true, t0 + 5*minute + 1: false, 0: false, 1<<48 - 1: false,
		} {
			run, err := NewMinter(zeros{}).Mint(max(made, 1))
			require.NoError(t, err)
			for _, create := range []Data{birth(d), &RunStarted{Create: birth(d)}} {
				_, err = newBench().try(&Command{Run: run, Events: []Event{{Data: create}}})
				if ok {
					require.NoError(t, err)
				} else {
					require.Equal(t, cairnerr.CodeMalformed, cairnerr.CodeOf(err), "made at %s", made)
					require.Equal(t, 400, cairnerr.AsError(err).Status())
				}
			}
		}
	}
	old, err := NewMinter(zeros{}).Mint(1)
	require.NoError(t, err)
	_, err = newBench().try(&Command{Run: old, Events: []Event{{Data: birth(Engine)}}})
	require.Equal(t, cairnerr.CodeMalformed, cairnerr.CodeOf(err), "searches by time rely on ids of every dialect")
}

func TestSpecVersions(t *testing.T) {
	t.Parallel()
	for spec := 1; spec <= MaxSpec; spec++ {
		_, err := newBench().outsider(Event{Data: &RunCreated{Workflow: "w", Dialect: DialectOfSpec(spec), Spec: spec}})
		require.NoError(t, err)
	}
	for name, test := range map[string]struct {
		create RunCreated
		code   cairnerr.Code
	}{
		"newer":         {RunCreated{Workflow: "w", Dialect: World6, Spec: MaxSpec + 1}, cairnerr.CodeSpecNotSupported},
		"other dialect": {RunCreated{Workflow: "w", Dialect: World3, Spec: 6}, cairnerr.CodeMalformed},
		"no spec":       {RunCreated{Workflow: "w", Dialect: World3}, cairnerr.CodeMalformed},
		"engine":        {RunCreated{Workflow: "w", Dialect: Engine, Spec: 4}, cairnerr.CodeMalformed},
		"no dialect":    {RunCreated{Workflow: "w", Dialect: dialects}, cairnerr.CodeUnsupported},
	} {
		_, err := newBench().outsider(Event{Data: &test.create})
		require.Equal(t, test.code, cairnerr.CodeOf(err), "%s: %v", name, err)
	}
}

func TestAttributeLimits(t *testing.T) {
	t.Parallel()
	many := func(n, size int) []AttrChange {
		var list []AttrChange
		for i := range n {
			list = append(list, AttrChange{Key: fmt.Sprintf("%0*d", size, i), Value: strings.Repeat("v", size)})
		}
		return list
	}
	for name, test := range map[string]struct {
		set  AttrSet
		code cairnerr.Code
	}{
		"none":               {AttrSet{}, cairnerr.CodeMalformed},
		"empty key":          {AttrSet{Changes: []AttrChange{{Key: ""}}}, cairnerr.CodeLimitExceeded},
		"longest key":        {AttrSet{Changes: []AttrChange{{Key: strings.Repeat("ü", MaxAttributeKey)}}}, ""},
		"long key":           {AttrSet{Changes: []AttrChange{{Key: strings.Repeat("k", MaxAttributeKey+1)}}}, cairnerr.CodeLimitExceeded},
		"longest value":      {AttrSet{Changes: []AttrChange{{Key: "k", Value: strings.Repeat("v", MaxAttributeValue)}}}, ""},
		"long value":         {AttrSet{Changes: []AttrChange{{Key: "k", Value: strings.Repeat("ü", MaxAttributeValue/2) + "v"}}}, cairnerr.CodeLimitExceeded},
		"not UTF-8":          {AttrSet{Changes: []AttrChange{{Key: "k\xff"}}}, cairnerr.CodeMalformed},
		"value with NUL":     {AttrSet{Changes: []AttrChange{{Key: "k", Value: "\x00"}}}, cairnerr.CodeMalformed},
		"reserved":           {AttrSet{Changes: []AttrChange{{Key: "$rootRunId"}}}, cairnerr.CodeUnsupported},
		"reserved, allowed":  {AttrSet{AllowReserved: true, Changes: []AttrChange{{Key: "$rootRunId"}}}, ""},
		"twice":              {AttrSet{Changes: []AttrChange{{Key: "k"}, {Key: "k", Remove: true}}}, cairnerr.CodeMalformed},
		"as many as fit":     {AttrSet{Changes: many(MaxAttributes-1, 20)}, ""},
		"one too many":       {AttrSet{Changes: many(MaxAttributes, 20)}, cairnerr.CodeLimitExceeded},
		"remove what is not": {AttrSet{Changes: []AttrChange{{Key: "none", Remove: true}}}, ""},
		"too large together": {AttrSet{Changes: many(33, 128)}, cairnerr.CodeLimitExceeded},
	} {
		b := newRun(t, World6, about(testID(59), &AttrSet{Changes: []AttrChange{{Key: "first"}}}))
		_, err := b.write(about(a1, &test.set))
		if test.code == "" {
			require.NoError(t, err, name)
			requireFolds(t, theRun, b.state(theRun), b.logs[theRun])
		} else {
			require.Equal(t, test.code, cairnerr.CodeOf(err), "%s: %v", name, err)
			require.Equal(t, 400, cairnerr.AsError(err).Status())
		}
	}
	_, err := newRun(t, World6).write(about(a1, &AttrSet{Changes: many(33, 128)}))
	require.Equal(t, cairnerr.CodeLimitExceeded, cairnerr.CodeOf(err), "the limit holds for a run without attributes, too")

	create := birth(World6)
	create.Attributes = map[string]string{"$parentRunId": "x"}
	_, err = newBench().outsider(Event{Data: create})
	require.Equal(t, cairnerr.CodeUnsupported, cairnerr.CodeOf(err))
	create.AllowReserved = true
	b := newBench()
	res := b.must(t, &Command{Events: []Event{{Data: create}}})
	create.Attributes["$parentRunId"] = "changed later"
	require.Equal(t, map[string]string{"$parentRunId": "x"}, res.Run.Attributes, "the caller's map is not kept")
}

func TestTextLimits(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 4096)
	limit := func(n int) string { return long[:n] }
	for name, test := range map[string]struct {
		events func(text string) Event
		limit  int
	}{
		"workflow":   {func(s string) Event { return Event{Data: &RunCreated{Workflow: s}} }, MaxName},
		"deployment": {func(s string) Event { return Event{Data: &RunCreated{Workflow: "w", Deployment: s}} }, MaxName},
		"start key":  {func(s string) Event { return Event{Data: &RunCreated{Workflow: "w", StartKey: s}} }, MaxKey},
		"memo key":   {func(s string) Event { return keyed(s, &StepCreated{}) }, MaxKey},
		"created":    {func(s string) Event { return keyed("k", &StepCreated{Name: s}) }, MaxName},
		"started":    {func(s string) Event { return keyed("k", &StepStarted{Name: s}) }, MaxName},
		"retrying":   {func(s string) Event { return keyed("k", &StepRetrying{Name: s}) }, MaxName},
		"completed":  {func(s string) Event { return keyed("k", &StepCompleted{Name: s}) }, MaxName},
		"failed":     {func(s string) Event { return keyed("k", &StepFailed{Name: s}) }, MaxName},
		"token":      {func(s string) Event { return keyed("k", &HookCreated{Token: s}) }, MaxToken},
		"sender":     {func(s string) Event { return keyed("approval", &HookReceived{Sender: s}) }, MaxKey},
		"wait":       {func(s string) Event { return keyed("k", &WaitCreated{Kind: s}) }, MaxName},
		"annotation": {func(s string) Event { return Event{Data: &Annotated{Name: s}} }, MaxName},
		"actor":      {func(s string) Event { return Event{Data: &Annotated{Name: "n", Actor: s}} }, MaxName},
	} {
		try := func(text string) error {
			e := test.events(text)
			if e.Data.EventType() == EventRunCreated {
				_, err := newBench().outsider(e)
				return err
			}
			_, err := newRun(t, Engine, started(), keyed("approval", &HookCreated{Token: "t"})).write(e)
			return err
		}
		require.NoError(t, try(limit(test.limit)), name)
		require.Equal(t, cairnerr.CodeLimitExceeded, cairnerr.CodeOf(try(limit(test.limit+1))), name)
		require.Equal(t, cairnerr.CodeMalformed, cairnerr.CodeOf(try("a\xff")), name)
		require.Equal(t, cairnerr.CodeMalformed, cairnerr.CodeOf(try("a\x00")), "%s: PostgreSQL would refuse the whole batch", name)
	}
	for _, d := range []Data{&RunCancelled{Reason: long}, &CancelRequested{Reason: long}} {
		_, err := newRun(t, Engine, started()).write(Event{Data: d})
		require.Equal(t, cairnerr.CodeLimitExceeded, cairnerr.CodeOf(err))
	}
	_, err := newRun(t, World3).write(Event{Data: &RunCancelled{Reason: strings.Repeat("ü", MaxReason)}})
	require.NoError(t, err, "characters, not bytes")
	_, err = newBench().outsider(Event{Data: &RunCreated{}})
	require.Equal(t, cairnerr.CodeMalformed, cairnerr.CodeOf(err), "a workflow has a name")
}

func TestCommandLimits(t *testing.T) {
	t.Parallel()
	big := make(Payload, MaxPayload+1)
	notes := make([]Event, MaxEvents+1)
	for i := range notes {
		notes[i] = Event{Data: &Annotated{Name: "n"}}
	}
	message := func(m Message) Command { return Command{Messages: []Message{m}} }
	for name, test := range map[string]struct {
		cmd    Command
		code   cairnerr.Code
		status int
	}{
		"payload in":       {Command{Events: []Event{{Data: &Annotated{Name: "n", Value: big}}}}, cairnerr.CodePayloadTooLarge, 413},
		"payload out":      {Command{Events: []Event{{Data: &RunCompleted{Output: big}}}}, cairnerr.CodePayloadTooLarge, 413},
		"largest payload":  {Command{Events: []Event{{Data: &Annotated{Name: "n", Value: big[:MaxPayload]}}}}, "", 0},
		"too many events":  {Command{Events: notes}, cairnerr.CodeLimitExceeded, 400},
		"most events":      {Command{Events: notes[:MaxEvents]}, "", 0},
		"no data":          {Command{Events: []Event{{}}}, cairnerr.CodeUnknownEvent, 400},
		"type and data":    {Command{Events: []Event{{Type: EventRunFailed, Data: &RunCompleted{}}}}, cairnerr.CodeMalformed, 400},
		"namespace":        {Command{Namespace: "a\nb"}, cairnerr.CodeMalformed, 400},
		"message":          {message(Message{ID: m1, Queue: "q"}), "", 0},
		"message, no id":   {message(Message{Queue: "q"}), cairnerr.CodeMalformed, 400},
		"message, nowhere": {message(Message{ID: m1}), cairnerr.CodeMalformed, 400},
		"message, queue":   {message(Message{ID: m1, Queue: strings.Repeat("q", MaxName+1)}), cairnerr.CodeLimitExceeded, 400},
		"message, key":     {message(Message{ID: m1, Queue: "q", Key: strings.Repeat("k", MaxKey+1)}), cairnerr.CodeLimitExceeded, 400},
		"message, NUL":     {message(Message{ID: m1, Queue: "q\x00"}), cairnerr.CodeMalformed, 400},
		"message, payload": {message(Message{ID: m1, Queue: "q", Payload: big}), cairnerr.CodePayloadTooLarge, 413},
	} {
		_, err := newRun(t, World3).try(&test.cmd)
		require.Equal(t, test.code, cairnerr.CodeOf(err), "%s: %v", name, err)
		if err != nil {
			require.Equal(t, test.status, cairnerr.AsError(err).Status())
		}
	}
	_, err := NewState(ns).Reduce(&Command{Namespace: ns}, newBench().env(), NewOutside())
	require.Equal(t, cairnerr.CodeMalformed, cairnerr.CodeOf(err), "no run")
	create := birth(World3)
	create.Context = make([]byte, MaxContext+1)
	_, err = newBench().outsider(Event{Data: create})
	require.Equal(t, cairnerr.CodePayloadTooLarge, cairnerr.CodeOf(err))
}

func TestCorrelationIDs(t *testing.T) {
	t.Parallel()
	require.Empty(t, (&Event{Type: EventRunStarted}).CorrelationID())
	require.Equal(t, PrefixStep.Format(s1), (&Event{Type: EventStepFailed, Entity: s1}).CorrelationID())
	require.Equal(t, PrefixHook.Format(h1), (&Event{Type: EventHookConflict, Entity: h1}).CorrelationID())
	require.Equal(t, PrefixWait.Format(w1), (&Event{Type: EventWaitCreated, Entity: w1}).CorrelationID())
	require.Equal(t, PrefixAttribute.Format(a1), (&Event{Type: EventAttrSet, Entity: a1}).CorrelationID())
}

// What belongs to a trace is recorded with starts and deliveries, within a limit. A delivery that is repeated under another trace is the same.
func TestHeaderLimits(t *testing.T) {
	t.Parallel()
	for size, code := range map[int]cairnerr.Code{1: "", MaxHeaders: "", MaxHeaders + 1: cairnerr.CodeLimitExceeded} {
		headers := map[string]string{"k": strings.Repeat("v", size-1)}
		_, err := newBench().outsider(Event{Data: &RunCreated{Workflow: "w", Headers: headers}})
		require.Equal(t, code, cairnerr.CodeOf(err), "a start with %d bytes", size)

		b := newRun(t, Engine, started(), keyed("hook", &HookCreated{Token: "t"}))
		_, err = b.outsider(keyed("hook", &HookReceived{Sender: "s", Headers: headers}))
		require.Equal(t, code, cairnerr.CodeOf(err), "a delivery with %d bytes", size)
		if code == "" {
			res, err := b.outsider(keyed("hook", &HookReceived{Sender: "s"}))
			require.NoError(t, err)
			require.Empty(t, res.Appended, "it was received before")
		}
	}
}
