package payload

import (
	"encoding/binary"
	"errors"
	"reflect"
	"strconv"
	"strings"
)

// The kinds of CBOR items: the first three bits of an item. The other five say how long it is, or how many bytes say
// that.
const (
	kindUint   = 0
	kindNegInt = 1
	kindBytes  = 2
	kindText   = 3
	kindArray  = 4
	kindMap    = 5
	kindTag    = 6
	kindOther  = 7

	breakByte    = 0xff // ends an item of indefinite length
	nullByte     = nullInCBOR
	undefined    = 0xf7
	indefinitely = 31
)

// head is the beginning of an item.
type head struct {
	kind       byte
	n          uint64 // the number, the length, the count, or the number of the tag
	indefinite bool
	size       int // of the head itself
}

var errItem = errors.New("a CBOR item is cut off")

func headOf(b []byte) (head, error) {
	if len(b) == 0 {
		return head{}, errItem
	}
	h := head{kind: b[0] >> 5, n: uint64(b[0] & 31), size: 1}
	switch {
	case h.n == indefinitely:
		h.indefinite = true
	case h.n > 27:
		return head{}, errItem
	case h.n >= 24:
		size := 1 << (h.n - 24)
		if len(b) < 1+size {
			return head{}, errItem
		}
		var number [8]byte
		copy(number[8-size:], b[1:1+size])
		h.n, h.size = binary.BigEndian.Uint64(number[:]), 1+size
	}
	return h, nil
}

// appendHead appends the shortest head.
func appendHead(out []byte, kind byte, n uint64) []byte {
	kind <<= 5
	switch {
	case n < 24:
		return append(out, kind|byte(n))
	case n < 1<<8:
		return append(out, kind|24, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(out, kind|25), uint16(n))
	case n < 1<<32:
		return binary.BigEndian.AppendUint32(append(out, kind|26), uint32(n))
	default:
		return binary.BigEndian.AppendUint64(append(out, kind|27), n)
	}
}

// split returns the first item and what follows it.
func split(b []byte) (item, rest []byte, err error) {
	if rest, err = skip(b); err != nil {
		return nil, nil, err
	}
	return b[:len(b)-len(rest)], rest, nil
}

func skip(b []byte) (rest []byte, err error) {
	h, err := headOf(b)
	if err != nil {
		return nil, err
	}
	rest = b[h.size:]
	inside := uint64(0)
	switch h.kind {
	case kindBytes, kindText:
		if h.indefinite {
			break
		}
		if h.n > uint64(len(rest)) {
			return nil, errItem
		}
		return rest[h.n:], nil
	case kindArray:
		inside = h.n
	case kindMap:
		inside = 2 * h.n
	case kindTag:
		inside = 1
	default:
		return rest, nil
	}
	for i := uint64(0); h.more(i, inside, rest); i++ {
		if rest, err = skip(rest); err != nil {
			return nil, err
		}
	}
	return h.end(rest)
}

// more reports whether another item is inside, after i of n.
func (h *head) more(i, n uint64, rest []byte) bool {
	if h.indefinite {
		return len(rest) > 0 && rest[0] != breakByte
	}
	return i < n
}

// end goes past the end of an item.
func (h *head) end(rest []byte) ([]byte, error) {
	if !h.indefinite {
		return rest, nil
	}
	if len(rest) == 0 {
		return nil, errItem
	}
	return rest[1:], nil
}

// rewriter copies a value and puts other items in the place of some. The context says what is expected at a place: it
// starts as that of the whole value, and element and value give those of what is inside.
type rewriter[C any] struct {
	out  []byte
	path []placeIn
	// replace puts something in the place of the item that b begins with, and returns what follows that. If it does not,
	// it returns false, and what is inside is asked for.
	replace func(b []byte, h head, c C) (rest []byte, done bool, err error)
	element func(c C, i int) C
	value   func(c C, key []byte) C
}

// placeIn is an index in a list, or an encoded key of a map.
type placeIn struct {
	index int
	key   []byte
}

func (w *rewriter[C]) item(b []byte, c C) (rest []byte, err error) {
	h, err := headOf(b)
	if err != nil {
		return nil, err
	}
	if rest, done, err := w.replace(b, h, c); done || err != nil {
		return rest, err
	}
	if h.kind != kindArray && h.kind != kindMap && h.kind != kindTag {
		return w.copy(b)
	}
	w.out, rest = append(w.out, b[:h.size]...), b[h.size:]
	if h.kind == kindTag {
		return w.item(rest, c)
	}
	w.path = append(w.path, placeIn{})
	for i := uint64(0); h.more(i, h.n, rest); i++ {
		place := placeIn{index: int(i)}
		var inside C
		if h.kind == kindMap {
			if place.key, _, err = split(rest); err != nil {
				return nil, err
			}
			if rest, err = w.copy(rest); err != nil {
				return nil, err
			}
			inside = w.value(c, place.key)
		} else {
			inside = w.element(c, int(i))
		}
		w.path[len(w.path)-1] = place
		if rest, err = w.item(rest, inside); err != nil {
			return nil, err
		}
	}
	w.path = w.path[:len(w.path)-1]
	if h.indefinite {
		w.out = append(w.out, breakByte)
	}
	return h.end(rest)
}

// copy copies an item as it is.
func (w *rewriter[C]) copy(b []byte) (rest []byte, err error) {
	item, rest, err := split(b)
	w.out = append(w.out, item...)
	return rest, err
}

// where says in words where in the value the rewriter is.
func (w *rewriter[C]) where() string {
	var text strings.Builder
	for _, p := range w.path {
		if p.key == nil {
			text.WriteString("[" + strconv.Itoa(p.index) + "]")
			continue
		}
		if text.Len() > 0 {
			text.WriteByte('.')
		}
		text.WriteString(keyText(p.key))
	}
	if text.Len() == 0 {
		return ""
	}
	return " at " + text.String()
}

func keyText(key []byte) string {
	var k any
	if err := viewingMode.Unmarshal(key, &k); err != nil {
		return "?"
	}
	return viewableKey(k)
}

// isNull reports whether an item is null, or says that there is nothing.
func isNull(b []byte) bool { return b[0] == nullByte || b[0] == undefined }

// withoutPointers returns what a type points to in the end.
func withoutPointers(t reflect.Type) reflect.Type {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}
