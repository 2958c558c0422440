package journal

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
)

// parse reads an event: its type, the entity if it is about one, and fields.
func (s *story) parse(t *testing.T, run ID, words []string) Event {
	t.Helper()
	kind, err := ParseEventType(words[0])
	require.NoError(t, err)
	e := Event{Data: newData[kind]()}
	words = words[1:]
	if kind.About() != "" && len(words) > 0 && !strings.Contains(words[0], "=") {
		if state := s.state(run).Run; state != nil && state.Dialect == Engine {
			e.Key = words[0]
			s.names[DeriveID(run, kind.About(), e.Key)] = e.Key
		} else {
			e.Entity = s.id(words[0])
		}
		words = words[1:]
	}
	target := any(e.Data)
	for _, word := range words {
		if start, ok := e.Data.(*RunStarted); ok && word == "create" {
			start.Create = &RunCreated{Workflow: "checkout"}
			target = start.Create
			continue
		}
		name, value, _ := strings.Cut(word, "=")
		if create, ok := target.(*RunCreated); ok && name == "dialect" {
			create.Dialect = dialectNamed(t, value)
			create.Spec = specOf(create.Dialect)
			continue
		}
		s.set(t, target, name, value)
	}
	return e
}

// set sets a field by its name in lower case.
func (s *story) set(t *testing.T, target any, name, value string) {
	t.Helper()
	field := reflect.ValueOf(target).Elem().FieldByNameFunc(func(f string) bool { return strings.EqualFold(f, strings.ReplaceAll(name, "-", "")) })
	require.True(t, field.IsValid(), "%T has no field %s", target, name)
	switch p := field.Addr().Interface().(type) {
	case *Time:
		d, err := time.ParseDuration(strings.TrimPrefix(value, "+"))
		require.NoError(t, err)
		*p = t0.Add(d)
	case *ID:
		*p = s.id(value)
	case **cairnerr.Error:
		code, message, _ := strings.Cut(value, ":")
		*p = &cairnerr.Error{Code: cairnerr.Code(code), Message: message}
	case *map[string]string:
		*p = map[string]string{}
		for pair := range strings.SplitSeq(value, ",") {
			k, v, _ := strings.Cut(pair, ":")
			(*p)[k] = v
		}
	case *[]AttrChange:
		for pair := range strings.SplitSeq(value, ",") {
			k, v, _ := strings.Cut(pair, ":")
			gone, remove := strings.CutPrefix(k, "-")
			*p = append(*p, AttrChange{Key: gone, Value: v, Remove: remove})
		}
	case *bool:
		*p = value == "" || value == "true"
	case *int:
		n, err := strconv.Atoi(value)
		require.NoError(t, err)
		*p = n
	case *int64:
		n, err := strconv.ParseInt(value, 10, 64)
		require.NoError(t, err)
		*p = n
	case *string:
		*p = value
	case *[]string:
		*p = strings.Split(value, ",")
	case *Payload:
		*p = Payload(value)
	case *[]byte:
		*p = []byte(value)
	default:
		t.Fatalf("cannot set %s of %T", name, target)
	}
}

func (s *story) time(at Time) string {
	if at == WakePushed {
		return "pushed"
	}
	return "+" + time.Duration(int64(at-t0)*int64(time.Millisecond)).String()
}

// event shows one event of a journal.
func (s *story) event(d Dialect, e *Event) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%d %s", e.Seq, e.Type)
	switch {
	case e.Key != "":
		out.WriteString(" " + e.Key)
	case !e.Entity.IsZero():
		out.WriteString(" " + s.name(e.Entity))
	}
	if e.At != t0 {
		out.WriteString(" at=" + s.time(e.At))
	}
	if d == World6 {
		out.WriteString(" id=…" + e.IDText(theRun, d)[28:])
	}
	s.fields(&out, reflect.ValueOf(e.Data).Elem())
	return out.String() + "\n"
}

// fields shows the fields of a struct that are set.
func (s *story) fields(out *strings.Builder, v reflect.Value) {
	for f, field := range v.Fields() {
		if field.IsZero() || !f.IsExported() {
			continue
		}
		fmt.Fprintf(out, " %s=%s", strings.ToLower(f.Name), s.value(field.Interface()))
	}
}

func (s *story) value(v any) string {
	switch v := v.(type) {
	case Time:
		return s.time(v)
	case ID:
		return s.name(v)
	case *cairnerr.Error:
		return fmt.Sprintf("%q", v.Error())
	case Payload:
		return string(v)
	case []byte:
		return fmt.Sprintf("%x", v)
	case map[string]string:
		var pairs []string
		for _, k := range slices.Sorted(maps.Keys(v)) {
			pairs = append(pairs, k+":"+v[k])
		}
		return strings.Join(pairs, ",")
	case []AttrChange:
		var pairs []string
		for _, c := range v {
			if c.Remove {
				pairs = append(pairs, "-"+c.Key)
			} else {
				pairs = append(pairs, c.Key+":"+c.Value)
			}
		}
		return strings.Join(pairs, ",")
	default:
		return fmt.Sprint(v)
	}
}

// show shows the views of a run, each in the order of its first event.
func (s *story) show(state *State) string {
	var out strings.Builder
	if state.Run == nil {
		return "no run\n"
	}
	line := func(kind string, v any, leave ...string) {
		out.WriteString(kind)
		for f, field := range reflect.ValueOf(v).Elem().Fields() {
			if !field.IsZero() && !slices.Contains(leave, f.Name) {
				fmt.Fprintf(&out, " %s=%s", strings.ToLower(f.Name), s.value(field.Interface()))
			}
		}
		out.WriteString("\n")
	}
	fmt.Fprintf(&out, "%s, %d events\n", state.Run.Status, state.Seq)
	if phase := state.Run.Phase(); phase != "" {
		fmt.Fprintf(&out, "%s\n", phase)
	}
	line("run", state.Run, "ID", "Workflow", "Status")
	for _, step := range ordered(state.Steps, func(v *Step) int64 { return v.FirstSeq }) {
		line(fmt.Sprintf("step %s %s", s.name(step.ID), step.Status), step, "ID", "Key", "Status")
	}
	for _, id := range slices.SortedFunc(maps.Keys(state.finished), ID.Compare) {
		fmt.Fprintf(&out, "step %s %s inline\n", s.name(id), state.finished[id])
	}
	for _, hook := range ordered(state.Hooks, func(v *Hook) int64 { return v.Seq }) {
		line(fmt.Sprintf("hook %s %s", s.name(hook.ID), hook.Status), hook, "ID", "Key", "Status")
	}
	for _, wait := range ordered(state.Waits, func(v *Wait) int64 { return v.Seq }) {
		line(fmt.Sprintf("wait %s %s", s.name(wait.ID), wait.Status), wait, "ID", "Key", "Status")
	}
	for _, sender := range slices.Sorted(maps.Keys(state.Receipts)) {
		r := state.Receipts[sender]
		fmt.Fprintf(&out, "receipt %s hook=%s seq=%d\n", sender, s.name(r.Hook), r.Seq)
	}
	return out.String()
}

func ordered[T any](m map[ID]*T, seq func(*T) int64) []*T {
	list := slices.Collect(maps.Values(m))
	slices.SortFunc(list, func(a, b *T) int { return int(seq(a) - seq(b)) })
	return list
}
