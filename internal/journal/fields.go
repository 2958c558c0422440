package journal

import (
	"reflect"
	"strings"
	"unicode"
)

// Fields returns what an event says, for people to read: the fields that are set, without the user's values.
func Fields(d Data) map[string]any {
	fields := map[string]any{}
	if absent(d) {
		return fields
	}
	v := reflect.ValueOf(d).Elem()
	for f, value := range v.Fields() {
		if strings.HasPrefix(f.Tag.Get("cbor"), "-") || value.IsZero() {
			continue
		}
		fields[lowerFirst(f.Name)] = readable(f.Name, value.Interface())
	}
	return fields
}

func readable(name string, v any) any {
	switch v := v.(type) {
	case ID:
		if name == "Step" {
			return PrefixStep.Format(v)
		}
		return PrefixRun.Format(v) // all others are runs
	case Time:
		return v.String()
	case Dialect:
		return v.String()
	default:
		return v
	}
}

func lowerFirst(s string) string {
	return string(unicode.ToLower(rune(s[0]))) + s[1:]
}
