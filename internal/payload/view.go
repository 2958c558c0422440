package payload

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"time"

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

// View returns the value in an envelope as JSON, for people to read. Types are lost on the way (a time becomes a text,
// bytes become base64), so it does not lead back to the envelope. Numbers keep their digits. A value of more than limit
// bytes is not shown. [ToJSON] is for programs.
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
	return toJSON(plain, forPeople)
}

// jsonMode says who the JSON is for.
type jsonMode bool

const (
	strictly  jsonMode = false // programs: what JSON cannot say is refused
	forPeople jsonMode = true  // it is shown as well as can be
)

// viewable turns what CBOR can say into what JSON can say.
func viewable(v any, mode jsonMode) (any, error) {
	switch v := v.(type) {
	case map[any]any:
		return viewableMap(v, mode)
	case []any:
		for i := range v {
			var err error
			if v[i], err = viewable(v[i], mode); err != nil {
				return nil, err
			}
		}
		return v, nil
	case float64:
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			return floatText(v), nil
		}
		if mode == strictly {
			return nil, fmt.Errorf("JSON has no number for %v", v)
		}
		return fmt.Sprint(v), nil
	case time.Time:
		return v.Format(time.RFC3339Nano), nil
	case *big.Int:
		return json.Number(v.String()), nil
	case big.Int:
		return json.Number(v.String()), nil
	case cbor.Tag:
		return viewableTag(v, mode)
	case cbor.ByteString:
		return base64.StdEncoding.EncodeToString([]byte(v)), nil
	default:
		return v, nil
	}
}

func viewableMap(m map[any]any, mode jsonMode) (any, error) {
	out := make(map[string]any, len(m))
	for key, value := range m {
		shown, err := viewable(value, mode)
		if err != nil {
			return nil, err
		}
		out[viewableKey(key)] = shown
	}
	return out, nil
}

func viewableTag(tag cbor.Tag, mode jsonMode) (any, error) {
	if text, ok := tag.Content.(string); ok && tag.Number == tagDecimal && isNumber(text) {
		return json.Number(text), nil
	}
	content, err := viewable(tag.Content, mode)
	return map[string]any{"tag": tag.Number, "value": content}, err
}

func viewableKey(key any) string {
	shown, _ := viewable(key, forPeople) // which refuses nothing
	if text, ok := shown.(string); ok {
		return text
	}
	return fmt.Sprint(shown)
}
