package form

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
)

var (
	jsonDecoder = reflect.TypeFor[json.Unmarshaler]()
	textDecoder = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// maxPointers limits pointers to pointers, which a type can have without end.
const maxPointers = 8

// describe fills in a part by its type: kind, fields and entries. Tags are looked at by finish.
func (b *builder) describe(p *part, t reflect.Type) {
	if b.count++; b.count > maxFields {
		if b.count == maxFields+1 {
			b.mistake(&part{}, "has more than %d fields", maxFields)
		}
		return
	}
	for depth := 0; t.Kind() == reflect.Pointer; depth++ {
		if depth == maxPointers {
			b.mistake(p, "has too many pointers: %v", t)
			return
		}
		p.pointer = true
		t = t.Elem()
	}
	p.goType, p.size = t, -1
	reads := func(decoder reflect.Type) bool { return reflect.PointerTo(t).Implements(decoder) }
	switch {
	case t.Kind() == reflect.Interface:
		b.mistake(p, "is an interface, %v: no form can have it", t)
	case t == reflect.TypeFor[time.Time]():
		p.kind = timePart
	case t == reflect.TypeFor[json.Number]():
		p.kind = numberPart
	case reads(jsonDecoder):
		b.mistake(p, "reads itself from JSON: what %v takes cannot be known", t)
	case reads(textDecoder):
		p.kind = ownTextPart
	default:
		b.describeKind(p, t)
	}
}

func (b *builder) describeKind(p *part, t reflect.Type) {
	switch t.Kind() {
	case reflect.String:
		p.kind = textPart
	case reflect.Bool:
		p.kind = boolPart
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		p.kind = wholePart
	case reflect.Float32, reflect.Float64:
		p.kind = numberPart
	case reflect.Struct, reflect.Slice, reflect.Array, reflect.Map:
		if slices.Contains(b.open, t) {
			b.mistake(p, "is recursive: %v", t)
			return
		} else if len(b.open) == maxFormDepth/2 {
			b.mistake(p, "is nested too deeply: %v", t)
			return
		}
		b.open = append(b.open, t)
		b.describeParts(p, t)
		b.open = b.open[:len(b.open)-1]
	default:
		b.mistake(p, "is a %v: no form can have it", t)
	}
}

// describeParts describes a type that consists of others.
func (b *builder) describeParts(p *part, t reflect.Type) {
	switch {
	case t.Kind() == reflect.Struct:
		p.kind = groupPart
		b.describeFields(p, t)
		return
	case t.Kind() == reflect.Map:
		p.kind = mapPart
		if t.Key().Kind() != reflect.String || reflect.PointerTo(t.Key()).Implements(textDecoder) {
			b.mistake(p, "is a map whose keys are no plain strings: %v", t)
		}
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		p.kind = bytesPart
		return
	default:
		p.kind = listPart
		if t.Kind() == reflect.Array {
			p.size = t.Len()
		}
	}
	p.item = &part{path: join(p.path, "*"), required: true}
	b.describe(p.item, t.Elem())
}

func (b *builder) describeFields(p *part, t reflect.Type) {
	p.byName = make(map[string]*part)
	for _, f := range b.jsonFields(p, t) {
		field := &part{name: f.name, path: join(p.path, f.name)}
		switch {
		case f.tag.Get("jsonschema") == "-":
			continue
		case strings.Contains(f.name, "."):
			b.mistake(field, "has a dot in its name, which separates the names in paths")
		case slices.Contains(f.options, "string"):
			b.mistake(field, "has the option string in its json tag, which forms do not support")
		}
		b.describe(field, f.typ)
		b.readTags(field, f.tag)
		omit := slices.Contains(f.options, "omitempty") || slices.Contains(f.options, "omitzero")
		field.required = field.tags.required || !omit && !field.pointer && !field.tags.has("default")
		p.fields = append(p.fields, field)
		p.byName[field.name] = field
	}
	if len(p.fields) == 0 && p.path != "" {
		b.mistake(p, "has a type without fields, %v", t)
	}
}

// jsonField is a field as encoding/json sees it.
type jsonField struct {
	name    string
	typ     reflect.Type
	tag     reflect.StructTag
	options []string // of the json tag
	tagged  bool     // the name is from the tag
	index   []int    // as in reflect.Value.FieldByIndex
}

// jsonFields returns the fields of a struct that encoding/json would fill, in the order of the struct.
func (b *builder) jsonFields(p *part, t reflect.Type) []jsonField {
	byName := make(map[string][]jsonField)
	for _, f := range b.allFields(p, t, nil, nil) {
		byName[f.name] = append(byName[f.name], f)
	}
	var fields []jsonField
	for _, same := range byName {
		// Of fields with the same name, the least nested one wins, then the one with a tag. Two winners hide each
		// other.
		slices.SortStableFunc(same, compareFields)
		if len(same) == 1 || compareFields(same[0], same[1]) != 0 {
			fields = append(fields, same[0])
		}
	}
	slices.SortFunc(fields, func(a, b jsonField) int { return slices.Compare(a.index, b.index) })
	return fields
}

func compareFields(a, b jsonField) int {
	switch {
	case len(a.index) != len(b.index):
		return len(a.index) - len(b.index)
	case a.tagged == b.tagged:
		return 0
	case a.tagged:
		return -1
	default:
		return 1
	}
}

// allFields returns the fields of a struct and of those that are embedded in it, whether they hide each other or not.
func (b *builder) allFields(p *part, t reflect.Type, index []int, within []reflect.Type) (fields []jsonField) {
	if slices.Contains(within, t) {
		return nil // the outer fields hide those of the same type within
	}
	within = append(within, t)
	for i := range t.NumField() {
		f := t.Field(i)
		place := append(slices.Clone(index), i)
		bare := f.Type
		if bare.Name() == "" && bare.Kind() == reflect.Pointer {
			bare = bare.Elem()
		}
		tag := f.Tag.Get("json")
		hidden := !f.IsExported() && (!f.Anonymous || bare.Kind() != reflect.Struct)
		if hidden || tag == "-" {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if !usableName(name) {
			name = ""
		}
		if !f.IsExported() && (name != "" || f.Type.Kind() == reflect.Pointer) {
			b.mistake(p, "embeds %v with a name or as a pointer, although it is not exported", bare)
			continue
		}
		if f.Anonymous && name == "" && bare.Kind() == reflect.Struct {
			fields = append(fields, b.allFields(p, bare, place, within)...)
			continue
		}
		found := jsonField{f.Name, f.Type, f.Tag, strings.Split(options, ","), name != "", place}
		if name != "" {
			found.name = name
		}
		fields = append(fields, found)
	}
	return fields
}

// usableName reports whether encoding/json takes a name from a tag. It ignores others.
func usableName(name string) bool {
	for _, c := range name {
		if !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", c) && !unicode.IsLetter(c) && !unicode.IsDigit(c) {
			return false
		}
	}
	return name != ""
}

// join appends a name to a dotted path.
func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
