package check

import (
	"crypto/sha256"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
)

// fields compares two views field by field, so that a field which is added to a view is compared too.
func (c *comparison) fields(where string, stored, folded any, skip ...string) {
	a, b := reflect.ValueOf(stored).Elem(), reflect.ValueOf(folded).Elem()
	for i := range a.NumField() {
		name := a.Type().Field(i).Name
		if slices.Contains(skip, name) || same(a.Field(i), b.Field(i)) {
			continue
		}
		c.add(where, words(name), show(a.Field(i).Interface()), show(b.Field(i).Interface()))
	}
}

// same compares two values; no bytes and an empty list of bytes are the same.
func same(a, b reflect.Value) bool {
	if a.Kind() == reflect.Slice && a.Len() == 0 && b.Len() == 0 {
		return true
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}

// words turns the name of a field into words: "CompletedAt" into "completed at".
func words(name string) string {
	var b strings.Builder
	for i, r := range name {
		if i > 0 && unicode.IsUpper(r) && unicode.IsLower(rune(name[i-1])) {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// show returns a value as people can read it, on one line. Payloads may be secret: only their size and digest are shown.
func show(v any) string {
	if ref := reflect.ValueOf(v); ref.Kind() == reflect.Pointer && ref.IsNil() {
		return "none"
	}
	switch v := v.(type) {
	case journal.ID:
		if v.IsZero() {
			return "none"
		}
		return v.String()
	case journal.Time:
		if v.IsZero() {
			return "not set"
		}
		return v.String()
	case journal.Payload:
		return showBytes(v)
	case []byte:
		return showBytes(v)
	case *cairnerr.Error:
		return fmt.Sprintf("%.80q", v.Error())
	case *journal.RunFailed:
		return fmt.Sprintf("a failure with code %.40q, error %s, value of %s", v.ErrorCode, show(v.Error), showBytes(v.Value))
	case string:
		return fmt.Sprintf("%.80q", v)
	default:
		return fmt.Sprint(v)
	}
}

func showBytes(b []byte) string {
	if len(b) == 0 {
		return "none"
	}
	return fmt.Sprintf("%d bytes (sha256 %.4x…)", len(b), sha256.Sum256(b))
}

func showIf(there bool, text string) string {
	if !there {
		return "none"
	}
	return show(text)
}
