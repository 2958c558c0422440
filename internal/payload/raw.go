package payload

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"sync"

	"github.com/fxamacker/cbor/v2"
)

// The encoder marks each json.RawMessage with a tag. Marked texts are then replaced by the values they hold. The tag is
// never stored. Its number is random, so that no value of a user has it.
const tagMarked = 0xb1d9_5fc4_7a0e_9c37

var (
	markedHead  = string(appendHead(nil, kindTag, tagMarked))
	markingMode = must(encodingOptions().UserBufferEncModeWithTags(marks()))

	rawMessageType  = reflect.TypeFor[json.RawMessage]()
	numberType      = reflect.TypeFor[json.Number]()
	tagType         = reflect.TypeFor[cbor.Tag]()
	cborUnmarshaler = reflect.TypeFor[cbor.Unmarshaler]()
)

func marks() cbor.TagSet {
	tags := cbor.NewTagSet()
	options := cbor.TagOptions{EncTag: cbor.EncTagRequired}
	if err := tags.Add(options, reflect.TypeFor[json.RawMessage](), tagMarked); err != nil {
		panic(err) // fixed above: a mistake in this file
	}
	return tags
}

// traits say what values of a type can hold.
type traits struct {
	raw     bool // a json.RawMessage
	number  bool // a json.Number
	dynamic bool // an interface, and so anything
}

var typeTraits sync.Map // reflect.Type to traits

func traitsOf(t reflect.Type) traits {
	if known, ok := typeTraits.Load(t); ok {
		return known.(traits)
	}
	var found traits
	found.add(t, map[reflect.Type]bool{})
	typeTraits.Store(t, found)
	return found
}

func (f *traits) add(t reflect.Type, seen map[reflect.Type]bool) {
	if seen[t] {
		return
	}
	seen[t] = true
	switch t {
	case rawMessageType:
		f.raw = true
		return
	case numberType:
		f.number = true
		return
	}
	switch t.Kind() {
	case reflect.Interface:
		f.dynamic = true
	case reflect.Pointer, reflect.Slice, reflect.Array:
		f.add(t.Elem(), seen)
	case reflect.Map:
		f.add(t.Key(), seen)
		f.add(t.Elem(), seen)
	case reflect.Struct:
		for field := range t.Fields() {
			f.add(field.Type, seen)
		}
	default:
	}
}

// encodeCBOR appends a value as CBOR, with the values of each json.RawMessage in it.
func encodeCBOR(buf *bytes.Buffer, v any) error {
	if v == nil {
		return encodingMode.MarshalToBuffer(v, buf)
	}
	if t := traitsOf(reflect.TypeOf(v)); !t.raw && !t.dynamic {
		return encodingMode.MarshalToBuffer(v, buf)
	}
	start := buf.Len()
	if err := markingMode.MarshalToBuffer(v, buf); err != nil {
		return err
	}
	if !bytes.Contains(buf.Bytes()[start:], []byte(markedHead)) {
		return nil
	}
	w := rewriter[struct{}]{
		element: func(struct{}, int) struct{} { return struct{}{} },
		value:   func(struct{}, []byte) struct{} { return struct{}{} },
	}
	w.replace = func(b []byte, h head, _ struct{}) ([]byte, bool, error) {
		if h.kind != kindTag || h.n != tagMarked {
			return nil, false, nil
		}
		rest, err := w.inline(b[h.size:])
		return rest, true, err
	}
	if _, err := w.item(buf.Bytes()[start:], struct{}{}); err != nil {
		return err
	}
	buf.Truncate(start)
	buf.Write(w.out)
	return nil
}

// inline puts the value that a byte string holds as JSON in its place.
func (w *rewriter[C]) inline(b []byte) (rest []byte, err error) {
	h, err := headOf(b)
	if err != nil || h.kind != kindBytes || h.n > uint64(len(b)-h.size) {
		return nil, errItem
	}
	text, rest := b[h.size:h.size+int(h.n)], b[h.size+int(h.n):]
	if len(text) == 0 {
		w.out = append(w.out, nullByte)
		return rest, nil
	}
	v, err := parseJSON(text)
	if err != nil {
		return nil, fmt.Errorf("the json.RawMessage%s is not JSON: %w", w.where(), err)
	}
	var out bytes.Buffer
	if err := encodingMode.MarshalToBuffer(v, &out); err != nil {
		return nil, err
	}
	w.out = append(w.out, out.Bytes()...)
	return rest, nil
}

// decodeCBOR reads CBOR into v. Where v has a json.RawMessage or json.Number, what is stored is turned into its text
// before.
func decodeCBOR(body []byte, v any) error {
	t := reflect.TypeOf(v)
	if t == nil || t.Kind() != reflect.Pointer {
		return decodingMode.Unmarshal(body, v)
	}
	decimals := bytes.Contains(body, []byte(decimalHead))
	if found := traitsOf(t); !decimals && !found.raw && !found.number {
		return decodingMode.Unmarshal(body, v)
	}
	if err := decodingMode.Wellformed(body); err != nil {
		return err
	}
	r := reader{decimals: decimals}
	r.replace, r.element, r.value = r.asText, elementOf, valueOf
	if _, err := r.item(body, t); err != nil {
		return err
	}
	return decodingMode.Unmarshal(r.out, v)
}

// reader turns stored items into what the decoder can put into the types that expect them.
type reader struct {
	rewriter[reflect.Type]
	decimals bool // there are numbers with tagDecimal
}

// asText replaces an item that is to be read into t. A nil type is one that nothing is known about.
func (r *reader) asText(b []byte, h head, t reflect.Type) (rest []byte, done bool, err error) {
	t = withoutPointers(t)
	if !r.concerns(t) || isNull(b) {
		rest, err = r.copy(b)
		return rest, true, err
	}
	switch {
	case t == rawMessageType:
		rest, err = r.rawMessage(b, h)
		return rest, true, err
	case t == numberType && h.kind != kindText:
		return r.number(b)
	case h.kind == kindTag && h.n == tagDecimal && takesFloat(t):
		rest, err = r.float(b, h)
		return rest, true, err
	}
	return nil, false, nil
}

// concerns reports whether something may have to be replaced in an item that is read into t.
func (r *reader) concerns(t reflect.Type) bool {
	if t == nil || t == tagType || reflect.PointerTo(t).Implements(cborUnmarshaler) {
		return false
	}
	found := traitsOf(t)
	return r.decimals || found.raw || found.number
}

// takesFloat reports whether a number is read into t as a float64, or refused as one.
func takesFloat(t reflect.Type) bool {
	kind := t.Kind()
	return kind == reflect.Interface || kind >= reflect.Int && kind <= reflect.Float64
}

// rawMessage puts the JSON text of an item there. A byte string holds the text itself: older versions have stored it
// so, and did not look whether it is JSON.
func (r *reader) rawMessage(b []byte, h head) (rest []byte, err error) {
	item, rest, err := split(b)
	if err != nil {
		return nil, err
	}
	var text []byte
	if h.kind == kindBytes {
		if err := decodingMode.Unmarshal(item, &text); err != nil {
			return nil, err
		}
		text = storedText(text)
	} else if text, err = itemToJSON(item, strictly); err != nil {
		return nil, fmt.Errorf("the value%s has no JSON: %w", r.where(), err)
	}
	r.out = append(appendHead(r.out, kindBytes, uint64(len(text))), text...)
	return rest, nil
}

// storedText returns bytes that were stored for a json.RawMessage.
func storedText(text []byte) []byte {
	if compact, err := compactJSON(text); err == nil {
		return compact
	}
	return bytes.Clone(text)
}

// number puts the digits of a number there as text. What is no number is left to the decoder, which refuses it.
func (r *reader) number(b []byte) (rest []byte, done bool, err error) {
	item, rest, err := split(b)
	if err != nil {
		return nil, true, err
	}
	text, err := itemToJSON(item, strictly)
	if err != nil || !isNumber(string(text)) {
		r.out = append(r.out, item...)
		return rest, true, nil //nolint:nilerr // see above
	}
	r.out = append(appendHead(r.out, kindText, uint64(len(text))), text...)
	return rest, true, nil
}

// float puts the float64 there that is nearest to the number in a text.
func (r *reader) float(b []byte, h head) (rest []byte, err error) {
	item, rest, err := split(b)
	if err != nil {
		return nil, err
	}
	var text string
	if err := decodingMode.Unmarshal(item[h.size:], &text); err != nil || !isNumber(text) {
		r.out = append(r.out, item...)
		return rest, nil //nolint:nilerr // nothing that we have written
	}
	f, err := nearest(text)
	if err != nil {
		return nil, err
	}
	r.out = binary.BigEndian.AppendUint64(append(r.out, kindOther<<5|27), math.Float64bits(f))
	return rest, nil
}
