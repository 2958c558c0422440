package journal

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/fxamacker/cbor/v2"
	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
)

func TestDataRoundTrips(t *testing.T) {
	t.Parallel()
	for e := EventType(1); e < eventTypes; e++ {
		d := newData[e]()
		fill(reflect.ValueOf(d).Elem())
		forgotten(d)
		enc, err := EncodeData(d)
		require.NoError(t, err, "%s", e)
		back, err := DecodeData(e, enc)
		require.NoError(t, err, "%s", e)
		require.Equal(t, d, back, "%s", e)

		again, err := EncodeData(back)
		require.NoError(t, err)
		require.Equal(t, enc, again, "%s: encoding is deterministic", e)
	}
}

func TestEmptyDataRoundTrips(t *testing.T) {
	t.Parallel()
	for e := EventType(1); e < eventTypes; e++ {
		enc, err := EncodeData(newData[e]())
		require.NoError(t, err, "%s", e)
		require.Empty(t, enc.Input)
		require.Empty(t, enc.Output)
		back, err := DecodeData(e, enc)
		require.NoError(t, err, "%s", e)
		require.Equal(t, newData[e](), back, "%s", e)
	}
	enc, err := EncodeData(&RunStarted{Create: birth(World3)})
	require.NoError(t, err)
	require.Empty(t, enc, "what creates a run is stored with its creation")
	enc, err = EncodeData(nil)
	require.NoError(t, err)
	require.Empty(t, enc)
}

// fill sets every field of a struct to something that is not its zero value.
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
			fill(v.Index(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0))
		fill(v.Index(1))
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"b": "1", "a": "2"}))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for f, field := range v.Fields() {
			if f.IsExported() {
				fill(field)
			}
		}
	default:
		panic("a field of kind " + v.Kind().String() + ": teach fill about it")
	}
}

// forgotten clears the fields that are for the reducer alone and not stored.
func forgotten(d Data) {
	switch d := d.(type) {
	case *RunCreated:
		d.AllowReserved = false
	case *RunStarted:
		d.Create = nil
	case *StepStarted:
		d.Lazy = false
	case *AttrSet:
		d.AllowReserved = false
	default:
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	for _, e := range []EventType{0, eventTypes, 255} {
		_, err := DecodeData(e, Encoded{})
		require.Equal(t, cairnerr.CodeUnknownEvent, cairnerr.CodeOf(err), "%s", e)
	}
	for name, blob := range map[string][]byte{
		"cut":        {0xa1, 0x01},
		"two values": {0xa0, 0xa0},
		"no map":     {0x61, 'a'},
		"wrong type": {0xa1, 0x01, 0x07},
		"twice":      {0xa2, 0x01, 0x61, 'a', 0x01, 0x61, 'b'},
		"deep":       append([]byte{0xa1, 0x09}, []byte(strings.Repeat("\x81", 64)+"\x00")...),
	} {
		_, err := DecodeData(EventRunCreated, Encoded{Data: blob})
		require.Equal(t, cairnerr.CodeCorrupt, cairnerr.CodeOf(err), name)
	}
}

func TestDecodeIgnoresFieldsOfNewerWriters(t *testing.T) {
	t.Parallel()
	blob, err := cbor.Marshal(map[int]any{1: "checkout", 99: []string{"new"}})
	require.NoError(t, err)
	d, err := DecodeData(EventRunCreated, Encoded{Data: blob})
	require.NoError(t, err)
	require.Equal(t, &RunCreated{Workflow: "checkout"}, d)
}

// An error's text is the user's, and may be anything. What was written must be readable.
func TestTextThatIsNotUTF8IsReadBack(t *testing.T) {
	t.Parallel()
	want := &StepFailed{Error: &cairnerr.Error{Code: "e\xff", Message: "bad \xff\xfe", Details: map[string]string{"\xc0": "\x00"}}}
	enc, err := EncodeData(want)
	require.NoError(t, err)
	got, err := DecodeData(EventStepFailed, enc)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// The numbers of event types and of their fields are stored. A line that changes here breaks journals that exist; a new field
// adds a line.
func TestFieldNumbers(t *testing.T) {
	t.Parallel()
	datadriven.RunTest(t, "testdata/fields.txt", func(t *testing.T, _ *datadriven.TestData) string {
		t.Helper()
		var out strings.Builder
		for e := EventType(1); e < eventTypes; e++ {
			fmt.Fprintf(&out, "%d %s\n", e, e)
			fields(t, &out, reflect.TypeOf(newData[e]()).Elem())
		}
		for _, shared := range []reflect.Type{reflect.TypeFor[cairnerr.Error](), reflect.TypeFor[AttrChange]()} {
			fmt.Fprintf(&out, "%s\n", shared.Name())
			fields(t, &out, shared)
		}
		return out.String()
	})
}

func fields(t *testing.T, out *strings.Builder, of reflect.Type) {
	t.Helper()
	for f := range of.Fields() {
		tag := f.Tag.Get("cbor")
		if !f.IsExported() {
			continue
		}
		require.NotEmpty(t, tag, "%s.%s has no number", of, f.Name)
		if tag == "-" {
			fmt.Fprintf(out, "  - %s %s\n", f.Name, f.Type)
			continue
		}
		number, options, _ := strings.Cut(tag, ",")
		require.Contains(t, options, "keyasint", "%s.%s", of, f.Name)
		fmt.Fprintf(out, "  %s %s %s\n", number, f.Name, f.Type)
	}
}

func FuzzDecodeData(f *testing.F) {
	for e := EventType(1); e < eventTypes; e++ {
		d := newData[e]()
		fill(reflect.ValueOf(d).Elem())
		enc, err := EncodeData(d)
		require.NoError(f, err)
		f.Add(uint8(e), enc.Data, []byte(enc.Input), []byte(enc.Output))
	}
	f.Add(uint8(200), []byte{0xa0}, []byte(nil), []byte(nil))
	f.Fuzz(func(t *testing.T, e uint8, blob, in, out []byte) {
		d, err := DecodeData(EventType(e), Encoded{Data: blob, Input: in, Output: out})
		if err != nil {
			require.Contains(t, []cairnerr.Code{cairnerr.CodeUnknownEvent, cairnerr.CodeCorrupt}, cairnerr.CodeOf(err))
			return
		}
		enc, err := EncodeData(d)
		require.NoError(t, err)
		again, err := DecodeData(EventType(e), enc)
		require.NoError(t, err)
		second, err := EncodeData(again)
		require.NoError(t, err)
		require.Equal(t, enc, second)
	})
}
