package payload

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"time"
	"unicode/utf8"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
)

// viewingMode reads any map, also one whose keys are numbers: a view shows what is there, whatever type it came from.
var viewingMode = must(cbor.DecOptions{
	DefaultMapType:   reflect.TypeFor[map[any]any](),
	IntDec:           cbor.IntDecConvertSignedOrBigInt,
	MaxArrayElements: math.MaxInt32,
	MaxMapPairs:      math.MaxInt32,
	MaxNestedLevels:  2 * MaxDepth,
	UTF8:             cbor.UTF8DecodeInvalid,
	DupMapKey:        cbor.DupMapKeyEnforcedAPF,
}.DecMode())

// View returns the value in an envelope as JSON, for people to read. Types are lost on the way (a time becomes a text, bytes become base64), so it
// does not lead back to the envelope. A value of more than limit bytes is not shown.
func View(p journal.Payload, limit int) (json.RawMessage, error) { return standard.View(p, limit) }

// View is [View] with the keys of the codec.
func (c *Codec) View(p journal.Payload, limit int) (json.RawMessage, error) {
	plain, err := c.unwrap(p)
	if err != nil {
		return nil, err
	}
	if len(plain) > limit {
		return nil, cairnerr.Errorf(cairnerr.CodePayloadTooLarge, "the value has %d bytes; at most %d are shown", len(plain), limit)
	}
	if len(plain) == 0 {
		return json.RawMessage("null"), nil
	}
	body := plain[codecHeader:]
	var shown any
	switch plain[0] {
	case tagJSON:
		var out bytes.Buffer
		if err := json.Compact(&out, body); err != nil {
			return nil, cairnerr.Errorf(cairnerr.CodeMalformed, "the stored value is not JSON: %w", err)
		}
		return out.Bytes(), nil
	case tagRaw:
		shown = base64.StdEncoding.EncodeToString(body)
		if utf8.Valid(body) {
			shown = string(body)
		}
	default:
		if err := viewingMode.Unmarshal(body, &shown); err != nil {
			return nil, cairnerr.Errorf(cairnerr.CodeMalformed, "the stored value cannot be shown: %w", err)
		}
		shown = viewable(shown)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(shown); err != nil {
		return nil, cairnerr.Errorf(cairnerr.CodeMalformed, "the stored value cannot be shown: %w", err)
	}
	return bytes.TrimSpace(out.Bytes()), nil
}

// viewable turns what CBOR can say into what JSON can say.
func viewable(v any) any {
	switch v := v.(type) {
	case map[any]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			out[viewableKey(key)] = viewable(value)
		}
		return out
	case []any:
		for i := range v {
			v[i] = viewable(v[i])
		}
		return v
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Sprint(v)
		}
		return v
	case time.Time:
		return v.Format(time.RFC3339Nano)
	case big.Int:
		return json.Number(v.String())
	case cbor.Tag:
		return map[string]any{"tag": v.Number, "value": viewable(v.Content)}
	case cbor.ByteString:
		return base64.StdEncoding.EncodeToString([]byte(v))
	default:
		return v
	}
}

func viewableKey(key any) string {
	if text, ok := key.(string); ok {
		return text
	}
	if text, ok := viewable(key).(string); ok {
		return text
	}
	return fmt.Sprint(viewable(key))
}
