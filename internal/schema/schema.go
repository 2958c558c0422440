// Package schema describes the Go types of values as JSON Schema, and checks values against it before they reach workflow code.
//
// It knows as much of JSON Schema as Go's own decoding would refuse: kinds of values, properties, items. A property may be missing, and one that
// the type does not have is ignored, so programs of different versions can talk to each other.
package schema

import (
	"bytes"
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fxamacker/cbor/v2"
)

const (
	maxDepth = 8    // of nested types; what is deeper is not described
	maxSize  = 4096 // bytes of a schema; a type that needs more is not described
)

// node is a schema: the part of JSON Schema that is used here. Its zero value takes anything.
type node struct {
	Type       types           `json:"type,omitempty"`
	Format     string          `json:"format,omitempty"` // what a number or text must be readable as; see formats
	Keys       *node           `json:"propertyNames,omitempty"`
	Properties map[string]node `json:"properties,omitempty"`
	Items      *node           `json:"items,omitempty"`
	Additional *node           `json:"additionalProperties,omitempty"`
	// GoType names the type of the whole value, if only that type itself can tell what it takes; see [TypeOf].
	GoType string `json:"x-go-type,omitempty"`

	opaque bool // what this part takes is not known here
}

// anything is the format of a part that becomes what fits it: numbers become Go numbers, and must not be too large.
const anything = "any"

// types are the kinds of values that a schema takes: one is written as a text, several as an array.
type types []string

// MarshalJSON implements [json.Marshaler].
func (t types) MarshalJSON() ([]byte, error) {
	if len(t) == 1 {
		return json.Marshal(t[0])
	}
	return json.Marshal([]string(t))
}

// UnmarshalJSON implements [json.Unmarshaler].
func (t *types) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*t = types{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(t))
}

var (
	schemas sync.Map // of reflect.Type to []byte
	opaques sync.Map // of the names of types to reflect.Type, those that the schemas of this program name
)

// Of returns the schema of a type, nil: anything fits. The result must not be changed.
func Of(t reflect.Type) []byte {
	if known, ok := schemas.Load(t); ok {
		return known.([]byte)
	}
	n := describe(t, maxDepth)
	text, err := json.Marshal(n)
	if large := err != nil || len(text) > maxSize; large || n.anyOpaque() {
		if large {
			n = node{}
		}
		n.GoType = t.PkgPath() + " " + t.String()
		opaques.Store(n.GoType, t)
		text, err = json.Marshal(n)
	}
	if err != nil || string(text) == "{}" {
		text = nil
	}
	schemas.Store(t, text)
	return text
}

// anyOpaque reports whether a part of the schema says nothing although not everything fits.
func (n *node) anyOpaque() bool {
	if n.opaque || n.Items != nil && n.Items.anyOpaque() || n.Additional != nil && n.Additional.anyOpaque() {
		return true
	}
	for _, p := range n.Properties {
		if p.anyOpaque() {
			return true
		}
	}
	return false
}

// TypeOf returns the name of the type that alone can tell whether a value fits a schema, "" if the schema can, and the
// type itself if this program has it.
func TypeOf(schema []byte) (name string, t reflect.Type) {
	var n node
	if len(schema) == 0 || json.Unmarshal(schema, &n) != nil || n.GoType == "" {
		return "", nil
	}
	if known, ok := opaques.Load(n.GoType); ok {
		t, _ = known.(reflect.Type)
	}
	return n.GoType, t
}

// decoders are the interfaces of types that read themselves: what they take cannot be known.
var decoders = []reflect.Type{
	reflect.TypeFor[cbor.Unmarshaler](), reflect.TypeFor[json.Unmarshaler](), reflect.TypeFor[encoding.BinaryUnmarshaler](), reflect.TypeFor[encoding.TextUnmarshaler](),
}

func describe(t reflect.Type, depth int) node {
	switch t {
	case reflect.TypeFor[time.Time]():
		return node{Type: types{"string"}, Format: "date-time"}
	case reflect.TypeFor[*time.Time]():
		return node{Type: types{"string", "null"}, Format: "date-time"}
	case reflect.TypeFor[json.Number]():
		return node{Type: types{"number"}}
	}
	if depth == 0 || slices.ContainsFunc(decoders, func(d reflect.Type) bool { return t.Implements(d) || reflect.PointerTo(t).Implements(d) }) {
		return node{opaque: t != reflect.TypeFor[json.RawMessage]()}
	}
	switch t.Kind() {
	case reflect.Bool:
		return node{Type: types{"boolean"}}
	case reflect.Int: // which has the same size in all programs that send
		return node{Type: types{"integer"}, Format: "int64"}
	case reflect.Uint:
		return node{Type: types{"integer"}, Format: "uint64"}
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return node{Type: types{"integer"}, Format: t.Kind().String()}
	case reflect.Float32, reflect.Float64:
		return node{Type: types{"number"}, Format: t.Kind().String()}
	case reflect.String:
		return node{Type: types{"string"}}
	case reflect.Pointer:
		return orNull(describe(t.Elem(), depth-1))
	case reflect.Slice, reflect.Array:
		return array(t, depth)
	case reflect.Map:
		return object(t, depth)
	case reflect.Struct:
		return structure(t, depth)
	case reflect.Interface:
		if t.NumMethod() == 0 {
			return node{Format: anything}
		}
		return node{opaque: true}
	default:
		return node{opaque: true}
	}
}

// orNull lets a schema take null, too.
func orNull(n node) node {
	if len(n.Type) > 0 && !slices.Contains(n.Type, "null") {
		n.Type = append(slices.Clone(n.Type), "null")
	}
	return n
}

func array(t reflect.Type, depth int) node {
	if t.Elem().Kind() == reflect.Uint8 && t.Kind() == reflect.Array {
		return node{opaque: true} // it is a text in some encodings, and numbers in others
	} else if t.Elem().Kind() == reflect.Uint8 {
		return node{Type: types{"string", "null"}, Format: "byte"}
	}
	items := describe(t.Elem(), depth-1)
	return orNull(node{Type: types{"array"}, Items: &items})
}

func object(t reflect.Type, depth int) node {
	values := describe(t.Elem(), depth-1)
	n := orNull(node{Type: types{"object"}, Additional: &values})
	switch key := describe(t.Key(), depth-1); {
	case slices.Equal(key.Type, types{"integer"}):
		n.Keys = &key
	case !slices.Equal(key.Type, types{"string"}) || key.Format != "":
		return node{opaque: true} // what a text is as such a key, only the type can tell
	}
	return n
}

func structure(t reflect.Type, depth int) node {
	n := node{Type: types{"object"}, Properties: map[string]node{}}
	for _, f := range reflect.VisibleFields(t) {
		tag, tagged := f.Tag.Lookup("json")
		if _, own := f.Tag.Lookup("cbor"); own || strings.Contains(tag, ",string") {
			return node{opaque: true} // written in another way
		}
		name, _, _ := strings.Cut(tag, ",")
		if !f.IsExported() || f.Anonymous && !tagged || tag == "-" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		n.Properties[name] = describe(f.Type, depth-1)
	}
	return n
}

// Complete reports whether a value that fits a schema can be read from JSON for sure: there is no part of which the
// schema says nothing.
func Complete(schema []byte) bool {
	var n node
	return len(schema) > 0 && json.Unmarshal(schema, &n) == nil && n.complete()
}

func (n *node) complete() bool {
	if len(n.Type) == 0 || n.GoType != "" || n.Items != nil && !n.Items.complete() || n.Additional != nil && !n.Additional.complete() {
		return false
	}
	for _, p := range n.Properties {
		if !p.complete() {
			return false
		}
	}
	return true
}

// Same reports whether what fits one schema fits the other.
func Same(a, b []byte) bool { return bytes.Equal(a, b) }
