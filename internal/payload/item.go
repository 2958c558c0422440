package payload

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"

	"github.com/cairn-workflow/cairn/cairnerr"
)

// firstContainer is the first byte of CBOR that is not that of a number, bytes or a text.
const firstContainer = 0x80

// ItemDigest returns a digest by which an item of a list is told apart from others. Unlike [Digest], it leaves out what has its zero value, so that a field
// that is added to the type of the item does not change it.
func ItemDigest(v any) ([]byte, error) {
	p, err := Encode(v)
	if err != nil {
		return nil, err
	}
	if len(p) > 1 && p[0] == tagCBOR && p[1] < firstContainer {
		return sum(p), nil // a number or a text
	}
	view, err := View(p, MaxSize)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(view))
	decoder.UseNumber()
	var tree any
	if err := decoder.Decode(&tree); err != nil {
		return nil, cairnerr.Errorf(cairnerr.CodeMalformed, "an item cannot be compared: %w", err)
	}
	text, err := json.Marshal(withoutZeros(tree))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	return sum[:DigestSize], nil
}

// withoutZeros drops what has its zero value from objects.
func withoutZeros(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, field := range v {
			if field = withoutZeros(field); isZero(field) {
				delete(v, k)
			} else {
				v[k] = field
			}
		}
	case []any:
		for i := range v {
			v[i] = withoutZeros(v[i])
		}
	}
	return v
}

func isZero(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case json.Number:
		return v == "0"
	case string:
		return v == "" || v == "0001-01-01T00:00:00Z"
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	default:
		return false
	}
}
