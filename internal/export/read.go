package export

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
)

// Run is what a file says.
type Run struct {
	Header Header
	ID     journal.ID
	Events []journal.Event
	// State is what the events amount to.
	State *journal.State
}

// Read reads a file from its beginning to its end. An error says in which line it is.
func Read(r io.Reader) (*Run, error) {
	in := &lines{r: bufio.NewReaderSize(r, 64<<10)}
	run, err := readHeader(in)
	if err != nil {
		return nil, in.failed(err)
	}
	for {
		text, err := in.next()
		if errors.Is(err, errCutOff) {
			err = cairnerr.Errorf(cairnerr.CodeMalformed, "%w", err)
		}
		if err != nil {
			return nil, in.failed(err)
		}
		var end struct {
			End *string `json:"end"`
		}
		if err := json.Unmarshal(text, &end); err != nil {
			return nil, in.failed(malformed(err))
		}
		if end.End != nil {
			break
		}
		e, err := readEvent(text, run.ID)
		if err == nil {
			err = run.add(e)
		}
		if err != nil {
			return nil, in.failed(err)
		}
	}
	if err := run.finish(in); err != nil {
		return nil, in.failed(err)
	}
	return run, nil
}

func readHeader(in *lines) (*Run, error) {
	text, err := in.next()
	if errors.Is(err, errCutOff) {
		return nil, cairnerr.Errorf(cairnerr.CodeMalformed, "the file is empty")
	}
	if err != nil {
		return nil, err
	}
	run := &Run{}
	if err := json.Unmarshal(text, &run.Header); err != nil {
		return nil, cairnerr.Errorf(cairnerr.CodeMalformed, "not an exported run: %w", err)
	}
	if err := run.Header.check(); err != nil {
		return nil, err
	}
	if run.ID, err = journal.PrefixRun.Parse(run.Header.Run); err != nil {
		return nil, err
	}
	if _, err = journal.ParseDialect(run.Header.Dialect); err != nil {
		return nil, err
	}
	_, err = journal.ParseStatus(run.Header.Status)
	return run, err
}

// add takes the next event. The state is folded as the lines come, so that what does not fit is found in its line.
func (r *Run) add(e *journal.Event) error {
	created, first := e.Data.(*journal.RunCreated)
	switch {
	case e.Seq != int64(len(r.Events))+1:
		return cairnerr.Errorf(cairnerr.CodeMalformed, "event %d follows %d: lines are missing, or in another order", e.Seq, len(r.Events))
	case first != (e.Seq == 1):
		return cairnerr.Errorf(cairnerr.CodeMalformed, "a journal begins with run_created, and has it once; event %d is %s", e.Seq, e.Type)
	case first && (created.Workflow != r.Header.Workflow || created.Dialect.String() != r.Header.Dialect):
		return cairnerr.Errorf(cairnerr.CodeMalformed, "the first line says workflow %.64q and dialect %.64q, and the run was created with workflow %.64q and dialect %q",
			r.Header.Workflow, r.Header.Dialect, created.Workflow, created.Dialect)
	}
	r.Events = append(r.Events, *e)
	if r.State == nil {
		r.State = journal.NewState(r.Header.Namespace)
	}
	return r.State.Follow(r.ID, r.Events[len(r.Events)-1:])
}

// finish checks the last line, which was read last, and that nothing comes after it.
func (r *Run) finish(in *lines) error {
	var end last
	if err := json.Unmarshal(in.text, &end); err != nil {
		return malformed(err)
	}
	switch {
	case end.End != Format:
		return cairnerr.Errorf(cairnerr.CodeMalformed, `the last line says "end": %.64q; want %q`, end.End, Format)
	case end.Events != int64(len(r.Events)):
		return cairnerr.Errorf(cairnerr.CodeMalformed, "the last line says that there are %d events, and there are %d", end.Events, len(r.Events))
	case len(r.Events) == 0:
		return cairnerr.Errorf(cairnerr.CodeMalformed, "the run has no events")
	}
	r.State.Commit()
	if _, err := in.next(); !errors.Is(err, errCutOff) {
		return cairnerr.Errorf(cairnerr.CodeMalformed, "there is data after the last line")
	}
	return nil
}

// readEvent reads a line.
func readEvent(text []byte, run journal.ID) (*journal.Event, error) {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return nil, malformed(err)
	}
	t, err := journal.ParseEventType(l.Type)
	if err != nil {
		return nil, err
	}
	e := &journal.Event{Seq: l.Seq, Type: t, At: l.At, Key: l.Key}
	if l.Entity == "" {
		e.Entity = entityOf(run, e)
	} else if e.Entity, err = t.About().Parse(l.Entity); err != nil {
		return nil, err
	}
	enc, err := l.encoded(t)
	if err != nil {
		return nil, err
	}
	e.Data, err = journal.DecodeData(t, enc)
	if err == nil && journal.PayloadBytes(e.Data) != len(enc.Input)+len(enc.Output) {
		err = cairnerr.Errorf(cairnerr.CodeMalformed, "an event of type %s has no such input or output", t)
	}
	return e, err
}

// encoded returns the data of a line as the journal stores it.
func (l *line) encoded(t journal.EventType) (enc journal.Encoded, err error) {
	switch {
	case len(l.Raw) > 0:
		enc.Data = l.Raw
	case len(l.Data) > 0:
		d, err := journal.DecodeData(t, journal.Encoded{})
		if err == nil {
			err = decodeFields(l.Data, reflect.ValueOf(d).Elem())
		}
		if err == nil {
			enc, err = journal.EncodeData(d)
		}
		if err != nil {
			return enc, cairnerr.Errorf(cairnerr.CodeMalformed, "data: %w", err)
		}
	}
	if l.Input != nil {
		enc.Input = l.Input.Bytes
	}
	if l.Output != nil {
		enc.Output = l.Output.Bytes
	}
	return enc, nil
}

func malformed(err error) error {
	return cairnerr.Errorf(cairnerr.CodeMalformed, "not a line of an exported run: %w", err)
}

// errCutOff says that there is no further line.
var errCutOff = errors.New("the file ends here without its last line: it was cut off")

// lines reads a file line by line.
type lines struct {
	r      *bufio.Reader
	number int
	text   []byte // the last one, until the next is read
}

// next returns the next line, without its end.
func (l *lines) next() ([]byte, error) {
	l.number++
	l.text = l.text[:0]
	for {
		part, err := l.r.ReadSlice('\n')
		l.text = append(l.text, part...)
		switch {
		case len(l.text) > maxLine:
			return nil, cairnerr.Errorf(cairnerr.CodeMalformed, "the line is longer than %d bytes", maxLine)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(l.text) == 0:
			return nil, errCutOff
		case err != nil && !errors.Is(err, io.EOF):
			return nil, cairnerr.Errorf(cairnerr.CodeMalformed, "the file cannot be read: %w", err)
		}
		l.text = bytes.TrimRight(l.text, "\r\n")
		if len(l.text) == 0 {
			return nil, cairnerr.Errorf(cairnerr.CodeMalformed, "the line is empty")
		}
		return l.text, nil
	}
}

// failed says in which line an error is.
func (l *lines) failed(err error) error {
	e := *cairnerr.AsError(err)
	e.Message = fmt.Sprintf("line %d: %s", l.number, e.Message)
	return e.With("line", strconv.Itoa(l.number))
}
