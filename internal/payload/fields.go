package payload

import (
	"cmp"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// elementOf returns the type that the i-th element of a list is read into; nil: it is not known.
func elementOf(t reflect.Type, i int) reflect.Type {
	t = withoutPointers(t)
	switch t.Kind() {
	case reflect.Interface:
		return t
	case reflect.Slice, reflect.Array:
		return t.Elem()
	case reflect.Struct:
		if f := fieldsOf(t); f.toArray && i < len(f.list) {
			return f.list[i].typ
		}
	default:
	}
	return nil
}

// valueOf returns the type that the value of an encoded key of a map is read into; nil: it is not known.
func valueOf(t reflect.Type, key []byte) reflect.Type {
	t = withoutPointers(t)
	switch t.Kind() {
	case reflect.Interface:
		return t
	case reflect.Map:
		return t.Elem()
	case reflect.Struct:
		return fieldsOf(t).find(key)
	default:
		return nil
	}
}

// field is a field of a struct, as the CBOR library sees it.
type field struct {
	name   string
	typ    reflect.Type
	index  []int // of the field, and of the embedded structs around it
	asInt  bool  // the key is the number that the name says
	tagged bool
}

// fields are the fields of a struct type that the CBOR library reads. It does not tell which they are, so its rules,
// which are nearly those of encoding/json, are followed here.
type fields struct {
	toArray bool
	list    []field // in the order of the struct
}

var structFields sync.Map // reflect.Type to *fields

func fieldsOf(t reflect.Type) *fields {
	if known, ok := structFields.Load(t); ok {
		return known.(*fields)
	}
	found := &fields{list: visible(allFields(t))}
	if options, ok := t.FieldByName("_"); ok {
		found.toArray = slices.Contains(strings.Split(options.Tag.Get("cbor"), ",")[1:], "toarray")
	}
	structFields.Store(t, found)
	return found
}

// find returns the type of the field that an encoded key is for: that with the name, or else one whose name differs
// in case only.
func (f *fields) find(key []byte) reflect.Type {
	h, err := headOf(key)
	if err != nil {
		return nil
	}
	switch h.kind {
	case kindUint, kindNegInt:
		number := int64(h.n)
		if h.kind == kindNegInt {
			number = -1 - number
		}
		if h.n > math.MaxInt64 {
			return nil
		}
		return f.first(func(f *field) bool { return f.asInt && f.name == strconv.FormatInt(number, 10) })
	case kindText:
		name := ""
		if err := decodingMode.Unmarshal(key, &name); err != nil {
			return nil
		}
		if t := f.first(func(f *field) bool { return !f.asInt && f.name == name }); t != nil {
			return t
		}
		return f.first(func(f *field) bool { return !f.asInt && strings.EqualFold(f.name, name) })
	default:
		return nil
	}
}

func (f *fields) first(fits func(*field) bool) reflect.Type {
	for i := range f.list {
		if fits(&f.list[i]) {
			return f.list[i].typ
		}
	}
	return nil
}

// embedded is a struct whose fields are taken for those of the struct around it.
type embedded struct {
	typ   reflect.Type
	index []int
}

// allFields returns the fields of a struct and of those embedded in it, level by level.
func allFields(t reflect.Type) []field {
	var all []field
	seen := map[reflect.Type]bool{}
	for level := []embedded{{typ: t}}; len(level) > 0; {
		count := map[reflect.Type]int{}
		for _, e := range level {
			count[e.typ]++
		}
		var next []embedded
		for _, e := range level {
			if count[e.typ] > 1 || seen[e.typ] {
				continue // one of many, or hidden by one that is less deep
			}
			seen[e.typ] = true
			own, inner := e.fields()
			all, next = append(all, own...), append(next, inner...)
		}
		level = next
	}
	return all
}

// fields returns the fields of an embedded struct, and the structs embedded in it.
func (e embedded) fields() (own []field, inner []embedded) {
	for i := range e.typ.NumField() {
		f := e.typ.Field(i)
		content := withoutPointers(f.Type)
		isStruct := content.Kind() == reflect.Struct
		if !f.IsExported() && (!f.Anonymous || !isStruct) {
			continue
		}
		tag := cmp.Or(f.Tag.Get("cbor"), f.Tag.Get("json"))
		if tag == "-" {
			continue
		}
		parts := strings.Split(tag, ",")
		index := append(slices.Clone(e.index), i)
		if f.Anonymous && isStruct && parts[0] == "" {
			inner = append(inner, embedded{content, index})
			continue
		}
		asInt := slices.Contains(parts[1:], "keyasint")
		own = append(own, field{fieldName(cmp.Or(parts[0], f.Name), asInt), f.Type, index, asInt, tag != ""})
	}
	return own, inner
}

// fieldName returns the name of a field. There is more than one way to write a number.
func fieldName(name string, asInt bool) string {
	if n, err := strconv.Atoi(name); asInt && err == nil {
		return strconv.Itoa(n)
	}
	return name
}

// visible returns the fields that are not hidden by another of the same name: one that is less deep, or one with a
// tag. Where none hides the others, all are hidden.
func visible(all []field) []field {
	var list []field
	for i := range all {
		f := &all[i]
		hides := func(other *field) bool {
			if len(other.index) != len(f.index) {
				return len(other.index) < len(f.index)
			}
			return other.tagged || !f.tagged
		}
		hidden := false
		for j := range all {
			other := &all[j]
			hidden = hidden || j != i && other.name == f.name && other.asInt == f.asInt && hides(other)
		}
		if !hidden {
			list = append(list, *f)
		}
	}
	slices.SortFunc(list, func(a, b field) int { return slices.Compare(a.index, b.index) })
	return list
}
