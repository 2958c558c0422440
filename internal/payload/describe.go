package payload

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/cairn-workflow/cairn/internal/journal"
)

// EncodeDigest puts v into an envelope with the default codec, and returns the digest of the value with it.
func EncodeDigest(v any) (journal.Payload, []byte, error) { return standard.EncodeDigest(v) }

// How much of a value is described.
const (
	maxDescribed      = 300     // characters
	maxDescribedBytes = 1 << 20 // of a value that is looked at
	maxDescribedDepth = 4
)

// Describe says in a few words what kind of value an envelope holds, such as {id: string, amount: number}. It shows names, not values.
func Describe(p journal.Payload) string {
	view, err := View(p, maxDescribedBytes)
	if err != nil {
		return "a value that cannot be shown"
	}
	var v any
	if err := json.Unmarshal(view, &v); err != nil {
		return "a value that cannot be shown"
	}
	var b strings.Builder
	describe(&b, v, maxDescribedDepth)
	text := []rune(b.String())
	if len(text) > maxDescribed {
		text = append(text[:maxDescribed], '…')
	}
	return string(text)
}

func describe(b *strings.Builder, v any, depth int) {
	if b.Len() > maxDescribed {
		return
	}
	switch v := v.(type) {
	case nil:
		b.WriteString("null")
	case bool:
		b.WriteString("bool")
	case float64:
		b.WriteString("number")
	case string:
		b.WriteString("string")
	case []any:
		b.WriteString("[")
		if len(v) > 0 && depth > 0 {
			describe(b, v[0], depth-1)
		}
		b.WriteString("]")
	case map[string]any:
		b.WriteString("{")
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for i, k := range keys {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(k + ": ")
			if depth == 0 {
				b.WriteString("…")
			} else {
				describe(b, v[k], depth-1)
			}
		}
		b.WriteString("}")
	}
}
