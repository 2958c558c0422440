package cairn

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// AttributeType lists the types that an attribute can have.
type AttributeType interface {
	string | bool | int | int64 | float64 | time.Time
}

// Attribute is a value of a run by which runs are searched. It is stored as text that sorts like the values, so that
// ranges can be searched too. The text of strings and times is readable.
type Attribute[T AttributeType] struct{ key string }

// NewAttribute defines an attribute. The key is permanent.
func NewAttribute[T AttributeType](key string) Attribute[T] { return Attribute[T]{key} }

// Key returns the permanent key of the attribute.
func (a Attribute[T]) Key() string { return a.key }

// AttributeChange sets an attribute of a run, or removes it: with [WithAttributes], [SetAttributes] or [RunHandle.SetAttributes].
type AttributeChange struct {
	change journal.AttrChange
	err    error
}

// Value is the change that gives the attribute a value.
func (a Attribute[T]) Value(v T) AttributeChange {
	text, err := attributeText(a.key, v)
	return AttributeChange{journal.AttrChange{Key: a.key, Value: text}, err}
}

// Remove is the change that takes the attribute away.
func (a Attribute[T]) Remove() AttributeChange {
	return AttributeChange{change: journal.AttrChange{Key: a.key, Remove: true}}
}

// Of returns the value that a run has, and whether it has one that can be read as T.
func (a Attribute[T]) Of(info *RunInfo) (T, bool) {
	var v T
	text, ok := info.Attributes[a.key]
	return v, ok && parseAttribute(text, &v) == nil
}

// Condition restricts a search to runs with certain values of an attribute; see [Filter].
type Condition struct {
	key, from, below string
	exact            bool
	never            bool // it holds for no run
	err              error
}

// Is holds for runs with this value.
func (a Attribute[T]) Is(v T) Condition {
	text, err := attributeText(a.key, v)
	return Condition{key: a.key, from: text, exact: true, err: err}
}

// AtLeast holds for runs with this value or a greater one.
func (a Attribute[T]) AtLeast(v T) Condition {
	text, err := attributeText(a.key, v)
	return Condition{key: a.key, from: text, err: err}
}

// Below holds for runs with a smaller value.
func (a Attribute[T]) Below(v T) Condition {
	text, err := attributeText(a.key, v)
	return Condition{key: a.key, below: text, never: text == "", err: err}
}

// Between holds for runs with a value v such that from <= v < below.
func (a Attribute[T]) Between(from, below T) Condition {
	c, end := a.AtLeast(from), a.Below(below)
	if c.below, c.never = end.below, end.never; c.err == nil {
		c.err = end.err
	}
	return c
}

// Exists holds for runs that have the attribute.
func (a Attribute[T]) Exists() Condition { return Condition{key: a.key} }

// HasPrefix holds for runs whose value begins with a text.
func HasPrefix(a Attribute[string], prefix string) Condition {
	return Condition{key: a.key, from: prefix, below: afterPrefix(prefix)}
}

// afterPrefix returns the first text behind all those with a prefix, "" if there is none.
func afterPrefix(prefix string) string {
	runes := []rune(prefix)
	for i, r := range slices.Backward(runes) {
		if next := r + 1; next <= '\U0010FFFF' {
			if next >= 0xD800 && next < 0xE000 {
				next = 0xE000 // what is between stands for no character
			}
			return string(append(runes[:i], next))
		}
	}
	return ""
}

func addConditions(f *store.RunFilter, conditions []Condition) error {
	for _, c := range conditions {
		switch {
		case c.err != nil:
			return c.err
		case c.never:
			findNothing(f)
			continue
		case !c.exact:
			f.Ranges = append(f.Ranges, store.AttributeRange{Key: c.key, From: c.from, Below: c.below})
			continue
		case f.Attributes == nil:
			f.Attributes = map[string]string{}
		}
		if other, twice := f.Attributes[c.key]; twice && other != c.from {
			return cairnerr.Errorf(cairnerr.CodeMalformed, "attribute %q cannot have two values at the same time", c.key)
		}
		f.Attributes[c.key] = c.from
	}
	return nil
}

// findNothing lets a filter fit no run: none has a state out of no states.
func findNothing(f *store.RunFilter) { f.Statuses = []journal.Status{} }

// WithAttributes starts a run with attributes.
func WithAttributes(changes ...AttributeChange) AttributesOption {
	list, err := attributeChanges(changes)
	o := AttributesOption{set: map[string]string{}, err: err}
	for _, c := range list {
		if c.Remove {
			delete(o.set, c.Key)
			o.remove = append(o.remove, c.Key)
		} else {
			o.set[c.Key] = c.Value
		}
	}
	return o
}

// SetAttributes changes attributes of the current run, all at once.
func SetAttributes(ctx Context, changes ...AttributeChange) error {
	list, err := attributeChanges(changes)
	if err != nil || len(list) == 0 {
		return err
	}
	return ctx.branch().SetAttributes("attributes", list)
}

func attributeChanges(changes []AttributeChange) ([]journal.AttrChange, error) {
	list := make([]journal.AttrChange, len(changes))
	for i, c := range changes {
		if c.err != nil {
			return nil, c.err
		}
		list[i] = c.change
	}
	return list, nil
}

// timeText is how times are stored: in UTC, to the millisecond, and always as long.
const timeText = "2006-01-02T15:04:05.000Z"

// attributeText returns a text for a value such that texts are in the order of the values.
func attributeText[T AttributeType](key string, value T) (string, error) {
	switch v := any(value).(type) {
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case int:
		return intText(int64(v)), nil
	case int64:
		return intText(v), nil
	case float64:
		if math.IsNaN(v) {
			return "", cairnerr.Errorf(cairnerr.CodeMalformed, "attribute %q: NaN is no value that can be searched by", key)
		}
		return floatText(v), nil
	case time.Time:
		if y := v.UTC().Year(); y < 0 || y > 9999 {
			return "", cairnerr.Errorf(cairnerr.CodeMalformed, "attribute %q: the year %d is not between 0 and 9999", key, y)
		}
		return v.UTC().Format(timeText), nil
	default:
		return "", cairnerr.Errorf(cairnerr.CodeUnsupported, "attribute %q has a type that cannot be stored", key)
	}
}

// intText pads a number with zeros. Of a negative one, which is marked by a minus sign and so sorts before all others, it is the distance from the smallest.
func intText(v int64) string {
	sign, digits := "", uint64(v)
	if v < 0 {
		sign, digits = "-", uint64(v)-1<<63
	}
	text := strconv.FormatUint(digits, 10)
	return sign + strings.Repeat("0", 19-len(text)) + text
}

// floatText is the bits of a number, turned so that their order is that of the numbers.
func floatText(v float64) string {
	if v == 0 {
		v = 0 // there are two zeros
	}
	bits := math.Float64bits(v)
	if bits>>63 == 1 {
		bits = ^bits
	} else {
		bits |= 1 << 63
	}
	text := strconv.FormatUint(bits, 16)
	return strings.Repeat("0", 16-len(text)) + text
}

// parseAttribute reads what attributeText made.
func parseAttribute[T AttributeType](text string, into *T) (err error) {
	switch v := any(into).(type) {
	case *string:
		*v = text
	case *bool:
		*v, err = strconv.ParseBool(text)
	case *int:
		var n int64
		n, err = parseInt(text)
		*v = int(n)
	case *int64:
		*v, err = parseInt(text)
	case *float64:
		*v, err = parseFloat(text)
	case *time.Time:
		*v, err = time.Parse(timeText, text)
	}
	return err
}

func parseInt(text string) (int64, error) {
	digits, negative := strings.CutPrefix(text, "-")
	n, err := strconv.ParseUint(digits, 10, 63)
	if negative {
		return int64(n + 1<<63), err
	}
	return int64(n), err
}

func parseFloat(text string) (float64, error) {
	bits, err := strconv.ParseUint(text, 16, 64)
	if bits>>63 == 1 {
		bits &^= 1 << 63
	} else {
		bits = ^bits
	}
	return math.Float64frombits(bits), err
}
