package export

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"unicode"

	"github.com/cairn-workflow/cairn/internal/journal"
)

// A field of an event's data is in the file by its name in the source, with a small first letter: these names are part of the format. What is not
// stored in the journal, and the user's values, which have fields of their own in the line, are left out.

// fieldName returns the name of a field in the file, "" if it is not there.
func fieldName(f *reflect.StructField) string {
	if tag := f.Tag.Get("cbor"); tag == "" || strings.HasPrefix(tag, "-") {
		return ""
	}
	return string(unicode.ToLower(rune(f.Name[0]))) + f.Name[1:]
}

// encodeFields returns the fields of a struct that are set.
func encodeFields(v reflect.Value) (map[string]any, error) {
	fields := map[string]any{}
	for f, field := range v.Fields() {
		name := fieldName(&f)
		if name == "" || field.IsZero() {
			continue
		}
		encoded, err := encodeField(f.Name, field)
		if err != nil {
			return nil, err
		}
		fields[name] = encoded
	}
	return fields, nil
}

func encodeField(name string, v reflect.Value) (any, error) {
	switch value := v.Interface().(type) {
	case journal.ID:
		return prefixOf(name).Format(value), nil
	case journal.Dialect:
		return value.String(), nil
	case []journal.AttrChange:
		list := make([]map[string]any, len(value))
		for i := range value {
			var err error
			if list[i], err = encodeFields(reflect.ValueOf(value[i])); err != nil {
				return nil, err
			}
		}
		return list, nil
	default: // texts, numbers, bytes, times and errors know how they are written
		return value, nil
	}
}

// prefixOf returns what the id in a field stands for.
func prefixOf(field string) journal.Prefix {
	if field == "Step" {
		return journal.PrefixStep
	}
	return journal.PrefixRun // all others are runs
}

// decodeFields reads the fields of a struct. Those that it does not have were written by a newer program.
func decodeFields(raw json.RawMessage, v reflect.Value) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return fmt.Errorf("want an object: %w", err)
	}
	for f, field := range v.Fields() {
		name := fieldName(&f)
		if name == "" || len(fields[name]) == 0 {
			continue
		}
		if err := decodeField(f.Name, fields[name], field); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func decodeField(name string, raw json.RawMessage, v reflect.Value) error {
	switch into := v.Addr().Interface().(type) {
	case *journal.ID:
		var text string
		err := json.Unmarshal(raw, &text)
		if err == nil {
			*into, err = prefixOf(name).Parse(text)
		}
		return err
	case *journal.Dialect:
		var text string
		err := json.Unmarshal(raw, &text)
		if err == nil {
			*into, err = journal.ParseDialect(text)
		}
		return err
	case *[]journal.AttrChange:
		var list []json.RawMessage
		if err := json.Unmarshal(raw, &list); err != nil {
			return err
		}
		*into = make([]journal.AttrChange, len(list))
		for i := range list {
			if err := decodeFields(list[i], reflect.ValueOf(&(*into)[i]).Elem()); err != nil {
				return err
			}
		}
		return nil
	default:
		return json.Unmarshal(raw, into)
	}
}

// Fields returns the names that the data of an event type has in the file, in the order of the source. The documentation is held against it.
func Fields(t journal.EventType) []string {
	d, err := journal.DecodeData(t, journal.Encoded{})
	if err != nil {
		return nil
	}
	var names []string
	for f := range reflect.TypeOf(d).Elem().Fields() {
		if name := fieldName(&f); name != "" {
			names = append(names, name)
		}
	}
	return names
}
