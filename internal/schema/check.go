package schema

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/payload"
)

// Check refuses a JSON value that does not fit a schema; nil: anything fits. The error names all places where it does not.
func Check(schema, value []byte) error {
	if len(schema) == 0 {
		return nil
	}
	var n node
	if err := json.Unmarshal(schema, &n); err != nil {
		return cairnerr.Errorf(cairnerr.CodeCorrupt, "a recorded schema cannot be read: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		return cairnerr.Errorf(cairnerr.CodeValueRefused, "the value is not JSON: %w", err)
	}
	var wrong []string
	n.check("value", v, &wrong)
	if len(wrong) > 0 {
		return cairnerr.Errorf(cairnerr.CodeValueRefused, "the value does not fit: %s", strings.Join(wrong, "; "))
	}
	return nil
}

// maxWrong is how many places an error names.
const maxWrong = 10

func (n *node) check(path string, v any, wrong *[]string) {
	if len(*wrong) >= maxWrong {
		return
	}
	kind := kindOf(v)
	if len(n.Type) > 0 && !slices.Contains(n.Type, kind) && (kind != "integer" || !slices.Contains(n.Type, "number")) {
		*wrong = append(*wrong, fmt.Sprintf("%s is %s, and should be %s", path, kind, strings.Join(n.Type, " or ")))
		return
	}
	if n.Format == anything && !becomesGo(v) {
		*wrong = append(*wrong, path+" has a number that is too large")
		return
	}
	if readable := formats[n.Format]; readable != nil && kind != "null" && !readable(fmt.Sprint(v)) {
		*wrong = append(*wrong, fmt.Sprintf("%s is %.40v, and should be %s", path, v, n.Format))
		return
	}
	switch v := v.(type) {
	case []any:
		for i, item := range v {
			if n.Items != nil {
				n.Items.check(fmt.Sprintf("%s[%d]", path, i), item, wrong)
			}
		}
	case map[string]any:
		for _, name := range sortedKeys(v) {
			if n.Keys != nil && !n.Keys.readable(name) {
				*wrong = append(*wrong, fmt.Sprintf("the key %.40q of %s should be %s", name, path, n.Keys.Format))
			}
			if p := n.property(name); p != nil {
				p.check(path+"."+name, v[name], wrong)
			}
		}
	}
}

// formats say what a number or text must be readable as, as Go's own decoding would. A format that is not known takes
// anything: a newer program may have written it.
var formats = map[string]func(text string) bool{
	"int8": signed(8), "int16": signed(16), "int32": signed(32), "int64": signed(64),
	"uint8": unsigned(8), "uint16": unsigned(16), "uint32": unsigned(32), "uint64": unsigned(64),
	"float32": float(32), "float64": float(64),
	"byte":      func(text string) bool { _, err := base64.StdEncoding.DecodeString(text); return err == nil },
	"date-time": func(text string) bool { return new(time.Time).UnmarshalText([]byte(text)) == nil },
}

// becomesGo reports whether a value can be read into an empty interface.
func becomesGo(v any) bool {
	text, err := json.Marshal(v)
	if err != nil {
		return false
	}
	p, err := payload.FromJSON(text)
	return err == nil && payload.Decode(p, new(any)) == nil
}

func signed(bits int) func(string) bool {
	return func(text string) bool { _, err := strconv.ParseInt(text, 10, bits); return err == nil }
}

func unsigned(bits int) func(string) bool {
	return func(text string) bool { _, err := strconv.ParseUint(text, 10, bits); return err == nil }
}

func float(bits int) func(string) bool {
	return func(text string) bool { _, err := strconv.ParseFloat(text, bits); return err == nil }
}

// readable reports whether the key of a map can be read.
func (n *node) readable(key string) bool {
	f := formats[n.Format]
	return f == nil || f(key)
}

// property returns the schema of a property, nil: anything fits. Like encoding/json, it does not mind the case of letters.
func (n *node) property(name string) *node {
	if p, ok := n.Properties[name]; ok {
		return &p
	}
	for known, p := range n.Properties {
		if strings.EqualFold(known, name) {
			return &p
		}
	}
	return n.Additional
}

func kindOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return "number"
		}
		return "integer"
	case string:
		return "string"
	case []any:
		return "array"
	default:
		return "object"
	}
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
