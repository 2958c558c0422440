package export

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"reflect"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/payload"
)

// Write writes a run with its journal, from the first event on. What it writes of an event is read back and compared first: a file that says
// something else than the journal is never made.
func Write(w io.Writer, namespace string, run *journal.Run, events []journal.Event) error {
	out := bufio.NewWriter(w)
	if err := writeLine(out, newHeader(namespace, run)); err != nil {
		return err
	}
	for i := range events {
		e := events[i]
		if e.Entity.IsZero() {
			e.Entity = entityOf(run.ID, &e) // a store does not keep what follows from the key
		}
		if err := writeEvent(out, run.ID, &e); err != nil {
			return err
		}
	}
	if err := writeLine(out, last{End: Format, Events: int64(len(events))}); err != nil {
		return err
	}
	return out.Flush()
}

func writeEvent(out *bufio.Writer, run journal.ID, e *journal.Event) error {
	enc, err := journal.EncodeData(e.Data)
	if err != nil {
		return err
	}
	if e.Data == nil {
		return cairnerr.Errorf(cairnerr.CodeUnknownEvent, "event %d was written by a newer program: export the run with that program", e.Seq)
	}
	l := line{Seq: e.Seq, At: e.At, Type: e.Type.String(), Key: e.Key, Input: newValue(enc.Input), Output: newValue(enc.Output)}
	if e.Entity != entityOf(run, e) {
		l.Entity = e.CorrelationID()
	}
	fields, err := encodeFields(reflect.ValueOf(e.Data).Elem())
	if err != nil {
		return cairnerr.Errorf(cairnerr.CodeInternal, "event %d cannot be written: %w", e.Seq, err)
	}
	if len(fields) > 0 {
		if l.Data, err = marshal(fields); err != nil {
			return cairnerr.Errorf(cairnerr.CodeInternal, "event %d cannot be written: %w", e.Seq, err)
		}
	}
	if !saysTheSame(&l, run, e, enc) {
		l.Raw = enc.Data
		if !saysTheSame(&l, run, e, enc) {
			return cairnerr.Errorf(cairnerr.CodeInternal, "event %d would not read back as it was written", e.Seq)
		}
	}
	return writeLine(out, &l)
}

// entityOf returns the entity that follows from the key of an event.
func entityOf(run journal.ID, e *journal.Event) journal.ID {
	if e.Key == "" {
		return journal.ID{}
	}
	return journal.DeriveID(run, e.Type.About(), e.Key)
}

// saysTheSame reports whether a line, written and read, is the event that it was made from.
func saysTheSame(l *line, run journal.ID, e *journal.Event, enc journal.Encoded) bool {
	text, err := marshal(l)
	if err != nil {
		return false
	}
	back, err := readEvent(text, run)
	if err != nil {
		return false
	}
	again, err := journal.EncodeData(back.Data)
	return err == nil && back.Seq == e.Seq && back.At == e.At && back.Type == e.Type && back.Key == e.Key && back.Entity == e.Entity &&
		bytes.Equal(again.Data, enc.Data) && bytes.Equal(again.Input, enc.Input) && bytes.Equal(again.Output, enc.Output)
}

// newValue puts a readable form beside the bytes of a value, where it has one: what is encrypted stays so.
func newValue(p journal.Payload) *value {
	if len(p) == 0 {
		return nil
	}
	v := &value{Bytes: p}
	if view, err := payload.View(p, maxView); err == nil {
		v.View = view
	}
	return v
}

func writeLine(out *bufio.Writer, v any) error {
	text, err := marshal(v)
	if err != nil {
		return cairnerr.Errorf(cairnerr.CodeInternal, "a line cannot be written: %w", err)
	}
	if len(text) > maxLine {
		return cairnerr.Errorf(cairnerr.CodePayloadTooLarge, "an event has a line of %d bytes; at most %d are allowed", len(text), maxLine)
	}
	if _, err = out.Write(text); err == nil {
		err = out.WriteByte('\n')
	}
	return err
}

// marshal is [json.Marshal] without the escapes that HTML needs.
func marshal(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}
