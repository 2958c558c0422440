package journal

import (
	"reflect"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-workflow/cairn/cairnerr"
)

// Encoded is an event's data as it is stored: the small fields in one blob, the user's values beside it.
type Encoded struct {
	Data          []byte
	Input, Output Payload
}

// The codec of event data: deterministic on the way out; on the way in it refuses what could exhaust memory
// and ignores fields of newer writers.
var (
	dataEncoding = must(cbor.CoreDetEncOptions().EncMode())
	dataDecoding = must(cbor.DecOptions{
		MaxArrayElements: 100_000,
		MaxMapPairs:      100_000,
		MaxNestedLevels:  16,
		DupMapKey:        cbor.DupMapKeyEnforcedAPF,
		UTF8:             cbor.UTF8DecodeInvalid, // the message of a user's error may be any bytes
	}.DecMode())
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // options fixed above: a mistake in this file
	}
	return v
}

// emptyMap is what a struct without set fields encodes to; it is not stored.
const emptyMap = 0xa0

// EncodeData returns what is stored of an event's data.
func EncodeData(d Data) (Encoded, error) {
	if d == nil {
		return Encoded{}, nil
	}
	var enc Encoded
	blob, err := dataEncoding.Marshal(d)
	if err != nil {
		return enc, cairnerr.Errorf(cairnerr.CodeMalformed, "encode %s: %w", d.EventType(), err)
	}
	if len(blob) != 1 || blob[0] != emptyMap {
		enc.Data = blob
	}
	in, out := d.payloads()
	if in != nil {
		enc.Input = *in
	}
	if out != nil {
		enc.Output = *out
	}
	return enc, nil
}

// DecodeData reads what [EncodeData] wrote. An event type that this program does not know gives [cairnerr.CodeUnknownEvent]: the
// run was written by a newer program, and is left to it.
func DecodeData(t EventType, enc Encoded) (Data, error) {
	if !t.Known() {
		return nil, cairnerr.Errorf(cairnerr.CodeUnknownEvent, "event type %d was written by a newer program", t)
	}
	d := newData[t]()
	if len(enc.Data) > 0 {
		if err := dataDecoding.Unmarshal(enc.Data, d); err != nil {
			return nil, cairnerr.Errorf(cairnerr.CodeCorrupt, "decode %s: %w", t, err)
		}
	}
	in, out := d.payloads()
	if in != nil && len(enc.Input) > 0 {
		*in = enc.Input
	}
	if out != nil && len(enc.Output) > 0 {
		*out = enc.Output
	}
	return d, nil
}

// PayloadBytes returns the size of the user's values in an event's data.
func PayloadBytes(d Data) int {
	if absent(d) {
		return 0
	}
	n := 0
	in, out := d.payloads()
	if in != nil {
		n += len(*in)
	}
	if out != nil {
		n += len(*out)
	}
	return n
}

// absent reports whether there is no data, also where somebody put a nil pointer into the interface.
func absent(d Data) bool { return d == nil || reflect.ValueOf(d).IsNil() }
