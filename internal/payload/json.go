package payload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"unicode/utf8"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
)

// FromJSON puts JSON text into an envelope with the default codec. See [Codec.FromJSON].
func FromJSON(text []byte) (journal.Payload, error) { return standard.FromJSON(text) }

// ToJSON returns the value in an envelope as JSON, with the default codec. See [Codec.ToJSON].
func ToJSON(p journal.Payload) (json.RawMessage, error) { return standard.ToJSON(p) }

// EqualJSON reports whether two JSON texts are the same value: the order of members and white space do not matter.
func EqualJSON(a, b []byte) bool {
	read := func(text []byte) (v any, err error) {
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.UseNumber()
		err = decoder.Decode(&v)
		return v, err
	}
	was, err := read(a)
	if err != nil {
		return false
	}
	is, err := read(b)
	return err == nil && reflect.DeepEqual(was, is)
}

// FromJSON puts JSON text into an envelope, for front ends that have no Go value. The text is kept, without white
// space, so no digit is lost. It is read into a Go type as encoding/json reads it; in an empty interface, numbers are
// as [Codec.Decode] says.
func (c *Codec) FromJSON(text []byte) (journal.Payload, error) {
	if at := notUTF8(text); at > 0 {
		return nil, cairnerr.Errorf(cairnerr.CodeMalformed, "the value is not JSON: %s: a byte that is not UTF-8",
			position(text, at))
	}
	compact, err := checkJSON(text)
	if err != nil {
		return nil, cairnerr.Errorf(cairnerr.CodeMalformed, "the value is not JSON: %w", err)
	}
	if len(compact) > MaxSize {
		return nil, cairnerr.Errorf(cairnerr.CodePayloadTooLarge, "the JSON value has %d bytes; at most %d are allowed",
			len(compact), MaxSize)
	}
	return c.wrap(append([]byte{tagJSON}, compact...))
}

// ToJSON returns the value in an envelope as compact JSON, for programs. Numbers keep their digits, times are RFC
// 3339, bytes are base64, as encoding/json has them. A value that JSON cannot say, such as NaN, is refused. Text from
// [Codec.FromJSON] comes back as it is.
func (c *Codec) ToJSON(p journal.Payload) (json.RawMessage, error) {
	plain, err := c.unwrap(p)
	if err != nil {
		return nil, err
	}
	return toJSON(plain, strictly)
}

// toJSON turns a value without layers into JSON.
func toJSON(plain []byte, mode jsonMode) (text json.RawMessage, err error) {
	if len(plain) == 0 {
		return json.RawMessage("null"), nil
	}
	switch body := plain[codecHeader:]; plain[0] {
	case tagJSON:
		text, err = compactJSON(body)
	case tagRaw:
		text, err = marshalJSON(body)
		if mode == forPeople && utf8.Valid(body) {
			text, err = marshalJSON(string(body))
		}
	default:
		text, err = itemToJSON(body, mode)
	}
	if err != nil {
		return nil, cairnerr.Errorf(cairnerr.CodeMalformed, "the stored value cannot be shown as JSON: %w", err)
	}
	return text, nil
}

func itemToJSON(item []byte, mode jsonMode) (json.RawMessage, error) {
	var v any
	if err := viewingMode.Unmarshal(item, &v); err != nil {
		return nil, err
	}
	v, err := viewable(v, mode)
	if err != nil {
		return nil, err
	}
	return marshalJSON(v)
}

func marshalJSON(v any) (json.RawMessage, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(out.Bytes()), nil
}

// compactJSON removes white space. The error of a text that is no JSON says where.
func compactJSON(text []byte) ([]byte, error) {
	var out bytes.Buffer
	if json.Compact(&out, text) != nil {
		err := json.Unmarshal(text, new(json.RawMessage)) // whose error says where, also at the end of the text
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			return nil, fmt.Errorf("%s: %w", position(text, int(syntax.Offset)), err)
		}
		return nil, err
	}
	return out.Bytes(), nil
}

// checkJSON is compactJSON for a text that is to be stored: what is nested too deep is refused.
func checkJSON(text []byte) ([]byte, error) {
	compact, err := compactJSON(text)
	if err != nil {
		return nil, err
	}
	if at := tooDeep(text); at > 0 {
		return nil, fmt.Errorf("%s: it is nested deeper than %d levels", position(text, at), MaxDepth)
	}
	return compact, nil
}

// position says where the n-th byte of a text is, as an editor shows it.
func position(text []byte, n int) string {
	before := text[:min(max(n-1, 0), len(text))]
	line := 1 + bytes.Count(before, []byte{'\n'})
	return fmt.Sprintf("line %d, column %d", line, len(before)-bytes.LastIndexByte(before, '\n'))
}

// notUTF8 returns which byte of a text is not part of a character; 0: none.
func notUTF8(text []byte) int {
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 {
			return i + 1
		}
		i += size
	}
	return 0
}

// tooDeep returns which byte of a text begins a list or an object that is nested too deep; 0: none. The text is JSON.
func tooDeep(text []byte) int {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch b := text[i]; {
		case quoted && b == '\\':
			i++
		case b == '"':
			quoted = !quoted
		case quoted:
		case b == '{' || b == '[':
			if depth++; depth > MaxDepth {
				return i + 1
			}
		case b == '}' || b == ']':
			depth--
		}
	}
	return 0
}

// parseJSON reads JSON text into maps, lists and the numbers of [numberOf], ready to be encoded as CBOR.
func parseJSON(text []byte) (any, error) {
	compact, err := checkJSON(text)
	if err != nil {
		return nil, err
	}
	var v any
	if err := decodeNumbers(compact, &v); err != nil {
		return nil, err
	}
	return mapNumbers(v, func(n json.Number) (any, error) { return numberOf(string(n)), nil })
}

// decodeNumbers is json.Unmarshal, with json.Number for the numbers in empty interfaces. The text is JSON.
func decodeNumbers(text []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	return dec.Decode(v)
}

// mapNumbers puts what number returns in the place of all numbers. It changes maps and lists where they are.
func mapNumbers(v any, number func(json.Number) (any, error)) (any, error) {
	var err error
	switch v := v.(type) {
	case json.Number:
		return number(v)
	case map[string]any:
		for key := range v {
			if v[key], err = mapNumbers(v[key], number); err != nil {
				return nil, err
			}
		}
	case []any:
		for i := range v {
			if v[i], err = mapNumbers(v[i], number); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// readJSON decodes stored JSON text as encoding/json does, except for numbers in empty interfaces.
func readJSON(body []byte, v any) error {
	compact, err := compactJSON(body)
	if err != nil {
		return err
	}
	t := reflect.TypeOf(v)
	if t == nil || t.Kind() != reflect.Pointer || reflect.ValueOf(v).IsNil() || !traitsOf(t).dynamic {
		return json.Unmarshal(compact, v)
	}
	if err := decodeNumbers(compact, v); err != nil {
		return err
	}
	return dynamicNumbers(reflect.ValueOf(v).Elem(), 2*MaxDepth)
}

var jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()

// dynamicNumbers gives the numbers in empty interfaces the types that they have when they come from CBOR. Levels
// bounds how far it goes into a value that contains itself.
func dynamicNumbers(v reflect.Value, levels int) error {
	t := v.Type()
	if levels < 0 || !v.CanSet() || !traitsOf(t).dynamic || reflect.PointerTo(t).Implements(jsonUnmarshaler) {
		return nil
	}
	switch v.Kind() {
	case reflect.Interface:
		if v.IsNil() || v.NumMethod() > 0 {
			return nil
		}
		changed, err := mapNumbers(v.Interface(), dynamicNumber)
		if changed != nil {
			v.Set(reflect.ValueOf(changed))
		}
		return err
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return dynamicNumbers(v.Elem(), levels-1)
	case reflect.Map:
		return dynamicNumbersInMap(v, levels-1)
	case reflect.Struct:
		for _, field := range v.Fields() {
			if err := dynamicNumbers(field, levels-1); err != nil {
				return err
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if err := dynamicNumbers(v.Index(i), levels-1); err != nil {
				return err
			}
		}
	default:
	}
	return nil
}

func dynamicNumbersInMap(m reflect.Value, levels int) error {
	for iter := m.MapRange(); iter.Next(); {
		value := reflect.New(m.Type().Elem()).Elem()
		value.Set(iter.Value())
		if err := dynamicNumbers(value, levels); err != nil {
			return err
		}
		m.SetMapIndex(iter.Key(), value) // of a key that is there: the iteration may go on
	}
	return nil
}
