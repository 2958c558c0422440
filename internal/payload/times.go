package payload

import (
	"bytes"
	"encoding/binary"
)

// The parts of CBOR that matter here: the first three bits of an item say what it is, the other five how long it is, or how many bytes
// say that.
const (
	kindBytes = 2
	kindText  = 3

	timeTag = 0xc0 // the item that follows is a time as text
)

// unreadableTime reports whether a value that was just written holds a time that cannot be read again: the text of a time has four digits for the
// year.
func unreadableTime(written []byte) bool {
	if bytes.IndexByte(written, timeTag) < 0 {
		return false
	}
	for rest, isTime := written, false; len(rest) > 0; {
		first := rest[0]
		content, after := item(rest)
		if isTime && !plainYear(content) {
			return true
		}
		isTime, rest = first == timeTag, after
	}
	return false
}

// item returns the content of the first item if it is a text or bytes, and what follows it. What is inside a list, a map or a tag follows it.
func item(b []byte) (content, rest []byte) {
	kind, n, size := b[0]>>5, uint64(b[0]&31), 0
	if n >= 24 && n <= 27 {
		size = 1 << (n - 24)
		if len(b) < 1+size {
			return nil, nil
		}
		var number [8]byte
		copy(number[8-size:], b[1:])
		n = binary.BigEndian.Uint64(number[:])
	}
	rest = b[1+size:]
	if kind != kindBytes && kind != kindText || b[0]&31 == 31 {
		return nil, rest
	}
	if n > uint64(len(rest)) {
		return nil, nil
	}
	return rest[:n], rest[n:]
}

// plainYear reports whether a text begins with a year of four digits.
func plainYear(text []byte) bool {
	if len(text) < 5 || text[4] != '-' {
		return false
	}
	for _, digit := range text[:4] {
		if digit < '0' || digit > '9' {
			return false
		}
	}
	return true
}
