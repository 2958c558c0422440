package engine

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/cairn-workflow/cairn/internal/store"
)

// attrsOf returns the attributes of a line as a JSON object, "" if it has none. Code of the program's that panics in between leaves a note.
func attrsOf(parts []part, r *slog.Record) (out string) {
	defer func() {
		if p := recover(); p != nil {
			out = string(appendText([]byte(`{"panic":`), fmt.Sprint(p))) + "}"
		}
	}()
	rest := make([]slog.Attr, 0, r.NumAttrs())
	r.Attrs(func(a slog.Attr) bool {
		rest = append(rest, a)
		return true
	})
	object := appendParts(nil, parts, rest)
	switch {
	case len(object) == 0:
		return ""
	case len(object) > store.MaxLogLine:
		return fmt.Sprintf(`{"cut":"%d bytes of attributes"}`, len(object))
	default:
		return "{" + string(object) + "}"
	}
}

// appendParts writes the members of an object. What comes after a group is in it; a group with nothing in it is left out.
func appendParts(buf []byte, parts []part, rest []slog.Attr) []byte {
	for i, p := range parts {
		if p.group != "" {
			return appendMember(buf, p.group, func(buf []byte) []byte { return appendParts(buf, parts[i+1:], rest) })
		}
		buf = appendAttrs(buf, p.attrs)
	}
	return appendAttrs(buf, rest)
}

func appendAttrs(buf []byte, attrs []slog.Attr) []byte {
	for _, a := range attrs {
		v := a.Value.Resolve()
		switch {
		case a.Equal(slog.Attr{}):
		case v.Kind() == slog.KindGroup && a.Key == "":
			buf = appendAttrs(buf, v.Group())
		case v.Kind() == slog.KindGroup:
			buf = appendMember(buf, a.Key, func(buf []byte) []byte { return appendAttrs(buf, v.Group()) })
		default:
			buf = appendValue(append(appendText(comma(buf), a.Key), ':'), v)
		}
	}
	return buf
}

// appendMember writes an object as a member, unless it is empty.
func appendMember(buf []byte, key string, members func([]byte) []byte) []byte {
	inner := members(nil)
	if len(inner) == 0 {
		return buf
	}
	buf = append(appendText(comma(buf), key), ":{"...)
	return append(append(buf, inner...), '}')
}

func comma(buf []byte) []byte {
	if len(buf) == 0 {
		return buf
	}
	return append(buf, ',')
}

func appendText(buf []byte, s string) []byte {
	text, err := json.Marshal(s)
	if err != nil { // a string can always be encoded
		return append(buf, `""`...)
	}
	return append(buf, text...)
}

// appendValue writes a value as people want to read it: durations and errors as text.
func appendValue(buf []byte, v slog.Value) []byte {
	switch v.Kind() {
	case slog.KindInt64:
		return strconv.AppendInt(buf, v.Int64(), 10)
	case slog.KindUint64:
		return strconv.AppendUint(buf, v.Uint64(), 10)
	case slog.KindBool:
		return strconv.AppendBool(buf, v.Bool())
	case slog.KindFloat64:
		if f := v.Float64(); !math.IsNaN(f) && !math.IsInf(f, 0) {
			return strconv.AppendFloat(buf, f, 'g', -1, 64)
		}
	case slog.KindTime:
		return appendText(buf, v.Time().Format(time.RFC3339Nano))
	case slog.KindAny:
		if err, ok := v.Any().(error); ok {
			return appendText(buf, err.Error())
		}
		if text, err := json.Marshal(v.Any()); err == nil {
			return append(buf, text...)
		}
	case slog.KindString, slog.KindDuration, slog.KindGroup, slog.KindLogValuer:
	}
	return appendText(buf, v.String())
}

// cutText shortens a text that is too long, between two characters, and says so.
func cutText(s string, limit int) string {
	const mark = "…"
	if len(s) <= limit {
		return s
	}
	s = s[:limit-len(mark)]
	for len(s) > 0 {
		if r, size := utf8.DecodeLastRuneInString(s); r != utf8.RuneError || size > 1 {
			break
		}
		s = s[:len(s)-1]
	}
	return s + mark
}
