package payload

import (
	"encoding"
	"math"
	"reflect"
	"slices"
	"sync"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-workflow/cairn/cairnerr"
)

// MaxDepth is how deep maps, lists and structs may be nested in a value.
const MaxDepth = 256

// What is accepted on the way out must be readable on the way in. So the limits on elements are off (the size
// limits them), any Go string is read back, and depth is checked before encoding.
var (
	encodingMode = must(encodingOptions().UserBufferEncMode())
	decodingMode = must(cbor.DecOptions{
		DefaultMapType:   reflect.TypeFor[map[string]any](),
		IntDec:           cbor.IntDecConvertSignedOrBigInt,
		BigIntDec:        cbor.BigIntDecodePointer, // which encoding/json can write
		MaxArrayElements: math.MaxInt32,
		MaxMapPairs:      math.MaxInt32,
		MaxNestedLevels:  2 * MaxDepth, // a tag counts as a level, too, and so does what is in a json.RawMessage
		UTF8:             cbor.UTF8DecodeInvalid,
		TextUnmarshaler:  cbor.TextUnmarshalerTextString,
		DupMapKey:        cbor.DupMapKeyEnforcedAPF,
	}.DecMode())
)

func encodingOptions() cbor.EncOptions {
	o := cbor.CoreDetEncOptions()
	o.Time = cbor.TimeRFC3339Nano
	o.TimeTag = cbor.EncTagRequired // so that a time stays a time in an empty interface
	o.TextMarshaler = cbor.TextMarshalerTextString
	return o
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // options fixed above: a mistake in this file
	}
	return v
}

// checkDepth refuses values that contain themselves: the encoder would follow them until the stack overflows,
// which ends the process. Types that cannot nest without limit are not looked into.
func checkDepth(v any) error {
	if v == nil || !unbounded(reflect.TypeOf(v)) {
		return nil
	}
	if !shallow(reflect.ValueOf(v), MaxDepth) {
		return cairnerr.Errorf(cairnerr.CodeMalformed, "a value of type %T cannot be stored: it is nested deeper than %d levels, or contains itself", v, MaxDepth)
	}
	return nil
}

var unboundedTypes sync.Map // reflect.Type to bool

// unbounded reports whether values of a type can be nested without limit: it contains itself, or an interface.
func unbounded(t reflect.Type) bool {
	if known, ok := unboundedTypes.Load(t); ok {
		return known.(bool)
	}
	found := contains(t, nil)
	unboundedTypes.Store(t, found)
	return found
}

var (
	binaryMarshaler = reflect.TypeFor[encoding.BinaryMarshaler]()
	textMarshaler   = reflect.TypeFor[encoding.TextMarshaler]()
	cborMarshaler   = reflect.TypeFor[cbor.Marshaler]()
)

// marshals reports whether values of a type write themselves: then the encoder does not look inside.
func marshals(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(binaryMarshaler) || p.Implements(textMarshaler) || p.Implements(cborMarshaler)
}

// contains reports whether t leads to an interface or back to one of the types on the way to it.
func contains(t reflect.Type, way []reflect.Type) bool {
	switch t.Kind() {
	case reflect.Interface:
		return true
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map, reflect.Struct:
	default:
		return false
	}
	if marshals(t) {
		return false
	}
	if slices.Contains(way, t) {
		return true
	}
	way = append(way, t)
	switch t.Kind() {
	case reflect.Map:
		return contains(t.Key(), way) || contains(t.Elem(), way)
	case reflect.Struct:
		for field := range t.Fields() {
			if contains(field.Type, way) {
				return true
			}
		}
		return false
	default:
		return contains(t.Elem(), way)
	}
}

// shallow reports whether a value is nested at most so many levels deep.
func shallow(v reflect.Value, levels int) bool {
	if levels < 0 {
		return false
	}
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		return v.IsNil() || shallow(v.Elem(), levels-1)
	case reflect.Slice, reflect.Array, reflect.Map, reflect.Struct:
	default:
		return true
	}
	if !unbounded(v.Type()) || marshals(v.Type()) {
		return true
	}
	switch v.Kind() {
	case reflect.Map:
		for iter := v.MapRange(); iter.Next(); {
			if !shallow(iter.Key(), levels-1) || !shallow(iter.Value(), levels-1) {
				return false
			}
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			if !shallow(field, levels-1) {
				return false
			}
		}
	default:
		for i := range v.Len() {
			if !shallow(v.Index(i), levels-1) {
				return false
			}
		}
	}
	return true
}
