package payload

import "bytes"

const timeTag = 0xc0 // the item that follows is a time as text

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
	h, err := headOf(b)
	if err != nil {
		return nil, nil
	}
	rest = b[h.size:]
	if h.kind != kindBytes && h.kind != kindText || h.indefinite {
		return nil, rest
	}
	if h.n > uint64(len(rest)) {
		return nil, nil
	}
	return rest[:h.n], rest[h.n:]
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
