package export_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/export"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/payload"
)

// born is when the runs of these tests were created.
const born journal.Time = 1_767_225_600_000 // 2026-01-01

func newID(tb testing.TB) journal.ID {
	tb.Helper()
	id, err := journal.PrefixRun.Parse("wrun_01JD0000000000000000000001")
	require.NoError(tb, err)
	return id
}

func encode(tb testing.TB, v any) journal.Payload {
	tb.Helper()
	p, err := payload.Encode(v)
	require.NoError(tb, err)
	return p
}

// packed is a compressed value. Its bytes are fixed: another version of the library may compress otherwise.
func packed(tb testing.TB) journal.Payload {
	tb.Helper()
	p, err := base64.StdEncoding.DecodeString("ECi1L/1gyAiNAABIAXkJxHBhaWQgAVQJAy+8QQ==")
	require.NoError(tb, err)
	return p
}

// history is a run in which much happens.
func history(tb testing.TB) []journal.Event {
	tb.Helper()
	run := newID(tb)
	hook := journal.DeriveID(run, journal.PrefixHook, "answer")
	failure := &cairnerr.Error{Code: "declined", Message: "no <money>", Retryable: true, Details: map[string]string{"bank": "Oslo"}}
	events := []journal.Event{
		{Data: &journal.RunCreated{Workflow: "order", Attributes: map[string]string{"a": "1", "b": "2"}, StartKey: "k", StartDigest: []byte{1, 2}, Root: run, Input: encode(tb, map[string]any{"id": "o-1", "cents": 8490})}},
		{Data: &journal.RunStarted{}},
		{Key: "charge", Data: &journal.StepStarted{Name: "charge", StartedAt: born, Input: encode(tb, "o-1")}},
		{Key: "charge", Data: &journal.StepRetrying{Name: "charge", Error: failure, RetryAfter: born + 5000}},
		{Key: "charge", Data: &journal.StepCompleted{Name: "charge", Attempt: 2, StartedAt: born, Took: 12, Digest: []byte{0xff}, Result: packed(tb)}},
		{Key: "race", Data: &journal.StepCompleted{Name: "race", Attempt: 1, Closes: []string{"slow/", "slower/"}, Result: encode(tb, []string{"fast"})}},
		{Key: "answer", Data: &journal.HookCreated{Token: "t", SingleUse: true, Metadata: encode(tb, []byte{0xff, 0})}},
		{Entity: hook, Data: &journal.HookReceived{Token: "t", Sender: "me", Digest: []byte{7}, Payload: encode(tb, true)}},
		{Key: "answer", Data: &journal.HookReplied{To: 8, Value: encode(tb, "thanks")}},
		{Key: "sleep", Data: &journal.WaitCreated{ResumeAt: born + 60_000, Kind: "sleep"}},
		{Data: &journal.CancelRequested{Reason: "why not", Actor: "ada"}},
		{Key: "sleep", Data: &journal.WaitCompleted{Error: &cairnerr.Error{Code: "cancelled", Message: "the run was cancelled"}}},
		{Key: "fails", Data: &journal.StepFailed{Name: "fails", Attempt: 1, Error: &cairnerr.Error{Message: "not UTF-8: \xff\xfe"}}},
		{Data: &journal.RunCancelled{Reason: "why not", Actor: "ada"}},
		{Data: &journal.Annotated{Name: "note", Actor: "ada", Value: encode(tb, 1.5)}},
	}
	for i := range events {
		e := &events[i]
		e.Seq, e.Type, e.At = int64(i+1), e.Data.EventType(), born+journal.Time(i)
		if e.Key != "" {
			e.Entity = journal.DeriveID(run, e.Type.About(), e.Key)
		}
	}
	return events
}

func write(tb testing.TB, events []journal.Event) []byte {
	tb.Helper()
	state, err := journal.Fold("default", newID(tb), bytesClone(events))
	require.NoError(tb, err)
	var out bytes.Buffer
	require.NoError(tb, export.Write(&out, "default", state.Run, events))
	return out.Bytes()
}

func bytesClone(events []journal.Event) []journal.Event { return append([]journal.Event{}, events...) }

func TestWhatIsWrittenIsReadBack(t *testing.T) {
	t.Parallel()
	events := history(t)
	text := write(t, events)
	run, err := export.Read(bytes.NewReader(text))
	require.NoError(t, err)
	require.Equal(t, events, run.Events)

	bare := bytesClone(events)
	for i := range bare {
		if bare[i].Key != "" {
			bare[i].Entity = journal.ID{}
		}
	}
	require.Equal(t, string(text), string(write(t, bare)), "what follows from the key need not be there")
	require.Equal(t, newID(t), run.ID)
	require.Equal(t, journal.StatusCancelled, run.State.Run.Status)
	run.Header.Cairn = ""
	require.Equal(t, export.Header{
		Format: "cairn.run", Version: "1.0", Namespace: "default", Run: "wrun_01JD0000000000000000000001", Workflow: "order", Dialect: "engine", Status: "cancelled",
	}, run.Header)
}

var update = flag.Bool("update", false, "write testdata/v1.0.jsonl anew; it is the file that all later versions must read, so only before 1.0 is released")

// TestTheFormatStays reads a file of each version that was ever written, and compares it with the journal that it was written from. What this version
// writes is compared byte for byte.
func TestTheFormatStays(t *testing.T) {
	t.Parallel()
	events := history(t)
	path := filepath.Join("testdata", "v"+export.Version+".jsonl")
	_, written, _ := bytes.Cut(write(t, events), []byte("\n")) // the header names the build
	if *update {
		header := fmt.Sprintf(`{"format":%q,"version":%q,"cairn":"devel","namespace":"default","run":"wrun_01JD0000000000000000000001","workflow":"order","dialect":"engine","status":"cancelled"}`, export.Format, export.Version)
		require.NoError(t, os.WriteFile(path, append([]byte(header+"\n"), written...), 0o600))
	}
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	_, kept, _ := bytes.Cut(content, []byte("\n"))
	require.Equal(t, string(kept), string(written))

	paths, err := filepath.Glob(filepath.Join("testdata", "v*.jsonl"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		run, err := export.Read(bytes.NewReader(content))
		require.NoError(t, err, path)
		require.Equal(t, events, run.Events, path)
	}
}

// fill sets every field that is written to something that is not its zero value.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(42)
	case reflect.Uint8:
		v.SetUint(1)
	case reflect.Array:
		for i := range v.Len() {
			v.Index(i).SetUint(7)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key"), reflect.ValueOf("value"))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for f, field := range v.Fields() {
			if f.IsExported() && f.Tag.Get("cbor") != "-" {
				fill(field)
			}
		}
	default:
		panic("a field of a kind that this test does not know: " + v.Kind().String())
	}
}

// TestEveryFieldIsWritten: whatever an event can say is in the file, in clear.
func TestEveryFieldIsWritten(t *testing.T) {
	t.Parallel()
	run := &journal.Run{ID: newID(t), Workflow: "order"}
	for kind := journal.EventType(1); kind.Known(); kind++ {
		d, err := journal.DecodeData(kind, journal.Encoded{})
		require.NoError(t, err)
		fill(reflect.ValueOf(d).Elem())
		e := journal.Event{Seq: 1, Type: kind, At: born, Data: d}
		var out bytes.Buffer
		require.NoError(t, export.Write(&out, "default", run, []journal.Event{e}))
		text := strings.Split(out.String(), "\n")[1]
		var line struct {
			Raw  string
			Data map[string]json.RawMessage
		}
		require.NoError(t, json.Unmarshal([]byte(text), &line))
		require.Empty(t, line.Raw, "JSON says all of %s: %s", kind, text)
		require.Len(t, line.Data, len(export.Fields(kind)), "%s", kind)
		for _, name := range export.Fields(kind) {
			require.NotEmpty(t, line.Data[name], "%s of %s", name, kind)
		}
	}
}

func TestWhatJSONCannotSay(t *testing.T) {
	t.Parallel()
	lines := strings.Split(string(write(t, history(t))), "\n")
	require.Contains(t, lines[13], `"raw":"`, "a text that is not UTF-8")
	require.Contains(t, lines[4], `"message":"no <money>"`, "a text that is")
	require.NotContains(t, lines[4], `"raw":"`)
	require.Contains(t, lines[1], `"view":{"cents":8490,"id":"o-1"}`, "values can be read")
	require.Contains(t, lines[5], `"view":"paid paid `, "those that are compressed, too")

	codec := &payload.Codec{Cipher: sealed{}}
	secret, err := codec.Encode("secret")
	require.NoError(t, err)
	events := history(t)[:2]
	created := *events[0].Data.(*journal.RunCreated)
	created.Input = secret
	events[0].Data = &created
	text := write(t, events)
	require.NotContains(t, strings.Split(string(text), "\n")[1], "view", "what is encrypted stays so")
	run, err := export.Read(bytes.NewReader(text))
	require.NoError(t, err)
	require.Equal(t, events, run.Events)
}

// sealed is a cipher that is none.
type sealed struct{}

func (sealed) Key() string                                    { return "k" }
func (sealed) Seal(_ string, plain, _ []byte) ([]byte, error) { return plain, nil }
func (sealed) Open(_ string, s, _ []byte) ([]byte, error)     { return s, nil }

func TestNewerMinorVersions(t *testing.T) {
	t.Parallel()
	text := string(write(t, history(t)))
	text = strings.Replace(text, `"version":"1.0"`, `"version":"1.7","invented":{"a":[1]}`, 1)
	text = strings.Replace(text, `{"seq":3,`, `{"seq":3,"invented":1,`, 1)
	text = strings.Replace(text, `"data":{"attempt":2,`, `"data":{"attempt":2,"invented":"x",`, 1)
	text = strings.Replace(text, `{"end":"cairn.run",`, `{"end":"cairn.run","invented":null,`, 1)
	require.Equal(t, 4, strings.Count(text, "invented"))
	run, err := export.Read(strings.NewReader(text))
	require.NoError(t, err)
	require.Equal(t, history(t), run.Events)
}

func TestBadFiles(t *testing.T) {
	t.Parallel()
	good := string(write(t, history(t)))
	lines := strings.SplitAfter(good, "\n")
	replaced := func(old, next string) string {
		require.Contains(t, good, old)
		return strings.Replace(good, old, next, 1)
	}
	for name, test := range map[string]struct {
		file string
		code cairnerr.Code
		want string
	}{
		"empty":                   {"", cairnerr.CodeMalformed, "line 1: the file is empty"},
		"not JSON":                {"hello\n", cairnerr.CodeMalformed, "line 1: not an exported run: invalid character 'h'"},
		"something else":          {`{"format":"gpx"}`, cairnerr.CodeMalformed, `line 1: not an exported run: want "format": "cairn.run", and it is "gpx"`},
		"no version":              {replaced(`"version":"1.0",`, ""), cairnerr.CodeMalformed, `line 1: bad version ""`},
		"next major version":      {replaced(`"version":"1.0"`, `"version":"2.0"`), cairnerr.CodeFormatTooNew, "line 1: the file has version 2.0 of the format, and this program reads 1.x"},
		"bad namespace":           {replaced(`"namespace":"default"`, `"namespace":""`), cairnerr.CodeMalformed, "line 1: bad namespace"},
		"bad run":                 {replaced(`"run":"wrun_`, `"run":"wrun-`), cairnerr.CodeMalformed, "line 1: bad id"},
		"bad dialect":             {replaced(`"dialect":"engine"`, `"dialect":"klingon"`), cairnerr.CodeMalformed, `line 1: unknown dialect "klingon"`},
		"bad status":              {replaced(`"status":"cancelled"`, `"status":"asleep"`), cairnerr.CodeMalformed, `line 1: unknown status "asleep"`},
		"header only":             {lines[0], cairnerr.CodeMalformed, "line 2: the file ends here without its last line"},
		"cut at a line":           {strings.Join(lines[:7], ""), cairnerr.CodeMalformed, "line 8: the file ends here without its last line: it was cut off"},
		"cut in a line":           {strings.Join(lines[:7], "")[:len(strings.Join(lines[:7], ""))-9], cairnerr.CodeMalformed, "line 7: not a line of an exported run: unexpected end"},
		"a line is missing":       {strings.Join(lines[:4], "") + strings.Join(lines[5:], ""), cairnerr.CodeMalformed, "line 5: event 5 follows 3: lines are missing"},
		"a line twice":            {strings.Join(lines[:4], "") + strings.Join(lines[3:], ""), cairnerr.CodeMalformed, "line 5: event 3 follows 3"},
		"the first is missing":    {lines[0] + strings.Replace(lines[2], `"seq":2`, `"seq":1`, 1), cairnerr.CodeMalformed, "line 2: a journal begins with run_created"},
		"created twice":           {strings.Join(lines[:2], "") + strings.Replace(lines[1], `"seq":1`, `"seq":2`, 1), cairnerr.CodeMalformed, "line 3: a journal begins with run_created, and has it once; event 2 is run_created"},
		"another workflow":        {replaced(`"workflow":"order","dialect"`, `"workflow":"other","dialect"`), cairnerr.CodeMalformed, `line 2: the first line says workflow "other"`},
		"an empty line":           {strings.Join(lines[:3], "") + "\n", cairnerr.CodeMalformed, "line 4: the line is empty"},
		"an unknown event":        {replaced(`"type":"step_retrying"`, `"type":"step_invented"`), cairnerr.CodeUnknownEvent, `line 5: unknown event type "step_invented"`},
		"a bad time":              {replaced(`"at":"2026-01-01T00:00:00.003Z"`, `"at":"noon"`), cairnerr.CodeMalformed, "line 5: not a line of an exported run: malformed: bad time"},
		"a number as a name":      {replaced(`"data":{"name":"charge","startedAt"`, `"data":{"name":7,"startedAt"`), cairnerr.CodeMalformed, "line 4: data: name: json: cannot unmarshal number"},
		"data as a list":          {replaced(`"data":{"name":"charge","startedAt":"2026-01-01T00:00:00.000Z"}`, `"data":[1]`), cairnerr.CodeMalformed, "line 4: data: want an object"},
		"bad base64":              {replaced(`"bytes":"`, `"bytes":"*`), cairnerr.CodeMalformed, "line 2: not a line of an exported run: illegal base64"},
		"bad raw data":            {replaced(`"raw":"`, `"raw":"AAAA`), cairnerr.CodeCorrupt, "line 14: decode step_failed"},
		"an id of another kind":   {replaced(`"entity":"hook_`, `"entity":"step_`), cairnerr.CodeMalformed, "line 9: bad id"},
		"input where none can be": {replaced(`"type":"run_started"`, `"type":"run_started","input":{"bytes":"AfY="}`), cairnerr.CodeMalformed, "line 3: an event of type run_started has no such input"},
		"the last line lies":      {replaced(`"events":15}`, `"events":16}`), cairnerr.CodeMalformed, "line 17: the last line says that there are 16 events, and there are 15"},
		"the last line has fewer": {
			replaced(`"events":15}`, `"events":14}`), cairnerr.CodeMalformed,
			"line 17: the last line says that there are 14 events, and there are 15",
		},
		"another last line":   {replaced(`{"end":"cairn.run"`, `{"end":"x"`), cairnerr.CodeMalformed, `line 17: the last line says "end": "x"`},
		"no events":           {lines[0] + `{"end":"cairn.run","events":0}`, cairnerr.CodeMalformed, "line 2: the run has no events"},
		"more behind the end": {good + lines[1], cairnerr.CodeMalformed, "line 18: there is data after the last line"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := export.Read(strings.NewReader(test.file))
			require.ErrorContains(t, err, test.want)
			require.Equal(t, test.code, cairnerr.CodeOf(err))
			require.NotEmpty(t, cairnerr.AsError(err).Details["line"])
		})
	}
	_, err := export.Read(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader(good))))
	require.ErrorContains(t, err, "line 1: the file cannot be read")
	crlf, err := export.Read(strings.NewReader(strings.ReplaceAll(strings.TrimSuffix(good, "\n"), "\n", "\r\n")))
	require.NoError(t, err, "what editors of other systems make of it")
	require.Len(t, crlf.Events, 15)
}

func TestWriteFails(t *testing.T) {
	t.Parallel()
	state, err := journal.Fold("default", newID(t), history(t))
	require.NoError(t, err)
	full := errors.New("the disk is full")
	require.ErrorIs(t, export.Write(failing{full}, "default", state.Run, history(t)), full)
	err = export.Write(&bytes.Buffer{}, "default", state.Run, []journal.Event{{Seq: 1, Type: 200, At: born}})
	require.Equal(t, cairnerr.CodeUnknownEvent, cairnerr.CodeOf(err))
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// FuzzRead: no file makes the reader panic, a refusal has a code and a line, and what was read can be written and read again.
func FuzzRead(f *testing.F) {
	good := write(f, history(f))
	f.Add(good)
	lines := bytes.SplitAfter(good, []byte("\n"))
	for n := range lines {
		f.Add(bytes.Join(lines[:n], nil))
	}
	for _, l := range lines[2:16] { // each event right behind the first
		f.Add(bytes.Join([][]byte{lines[0], lines[1], bytes.Replace(l, []byte(`"seq":`), []byte(`"seq":2,"was":`), 1), []byte(`{"end":"cairn.run","events":2}`)}, nil))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		run, err := export.Read(bytes.NewReader(file))
		if err != nil {
			require.NotEqual(t, cairnerr.CodeInternal, cairnerr.CodeOf(err), err)
			require.NotEmpty(t, cairnerr.AsError(err).Details["line"])
			return
		}
		var out bytes.Buffer
		if err := export.Write(&out, run.Header.Namespace, run.State.Run, run.Events); err != nil {
			require.Equal(t, cairnerr.CodeInternal, cairnerr.CodeOf(err), "a time that cannot be written is refused, not written wrongly")
			return
		}
		again, err := export.Read(&out)
		require.NoError(t, err)
		require.Equal(t, run.Events, again.Events)
	})
}
