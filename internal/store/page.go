package store

import (
	"encoding/base64"
	"encoding/binary"
	"strings"
	"unicode/utf8"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
)

// The limits of a page.
const (
	DefaultLimit = 100
	MaxLimit     = 1000
)

// Page asks for one page of a list.
type Page struct {
	// Limit is the most rows to return: 0 is [DefaultLimit], more than [MaxLimit] is MaxLimit.
	Limit int
	// Cursor of the page before; "" is the first page. It is exclusive, and stays good while rows are added.
	Cursor string
	// Desc turns the order around.
	Desc bool
}

// List is one page of an answer.
type List[T any] struct {
	Data []T
	// Cursor continues after the last row. It is set whenever there is a row, also on the last page: with it one can
	// ask later for what has been added.
	Cursor  string
	HasMore bool
}

// Size returns the number of rows that the page may have.
func (p Page) Size() (int, error) {
	switch {
	case p.Limit < 0:
		return 0, cairnerr.Errorf(cairnerr.CodeMalformed, "bad limit %d: want 1 to %d", p.Limit, MaxLimit)
	case p.Limit == 0:
		return DefaultLimit, nil
	default:
		return min(p.Limit, MaxLimit), nil
	}
}

// CursorKind tells the cursors of different lists apart, so that one is not taken for another.
type CursorKind byte

// The kinds of cursors.
const (
	CursorRuns     CursorKind = 'r'
	CursorEvents   CursorKind = 'e' // by position
	CursorEntity   CursorKind = 'c' // by run number and position
	CursorSteps    CursorKind = 's'
	CursorHooks    CursorKind = 'h' // by run number and position
	CursorWaits    CursorKind = 'w'
	CursorMessages CursorKind = 'm'
	CursorValues   CursorKind = 'v' // by the value of an attribute, and id
	CursorLogs     CursorKind = 'l'
)

// IDCursor makes a cursor out of an id.
func IDCursor(kind CursorKind, id journal.ID) string {
	return base64.RawURLEncoding.EncodeToString(append([]byte{byte(kind)}, id[:]...))
}

// NumberCursor makes a cursor out of two numbers.
func NumberCursor(kind CursorKind, a, b int64) string {
	buf := make([]byte, 1, 17)
	buf[0] = byte(kind)
	buf = binary.BigEndian.AppendUint64(buf, uint64(a))
	buf = binary.BigEndian.AppendUint64(buf, uint64(b))
	return base64.RawURLEncoding.EncodeToString(buf)
}

// ParseIDCursor reads a cursor made by [IDCursor]; "" gives the zero id.
func ParseIDCursor(kind CursorKind, cursor string) (journal.ID, error) {
	var id journal.ID
	if cursor == "" {
		return id, nil
	}
	buf, err := parseCursor(kind, cursor)
	if err != nil || len(buf) != len(id) {
		return id, badCursor()
	}
	copy(id[:], buf)
	return id, nil
}

// ParseNumberCursor reads a cursor made by [NumberCursor]; "" gives zeros.
func ParseNumberCursor(kind CursorKind, cursor string) (a, b int64, err error) {
	if cursor == "" {
		return 0, 0, nil
	}
	buf, err := parseCursor(kind, cursor)
	if err != nil || len(buf) != 16 {
		return 0, 0, badCursor()
	}
	return int64(binary.BigEndian.Uint64(buf)), int64(binary.BigEndian.Uint64(buf[8:])), nil
}

// textCursor makes a cursor out of a text and an id.
func textCursor(kind CursorKind, text string, id journal.ID) string {
	buf := append([]byte{byte(kind)}, id[:]...)
	return base64.RawURLEncoding.EncodeToString(append(buf, text...))
}

// parseTextCursor reads a cursor made by textCursor; "" gives nothing.
func parseTextCursor(kind CursorKind, cursor string) (text string, id journal.ID, err error) {
	if cursor == "" {
		return "", id, nil
	}
	buf, err := parseCursor(kind, cursor)
	if err != nil || !utf8.Valid(buf[16:]) {
		return "", id, badCursor()
	}
	copy(id[:], buf)
	return string(buf[16:]), id, nil
}

func badCursor() error {
	return cairnerr.Errorf(cairnerr.CodeMalformed, "bad cursor: use the one that came with the page before, in the same list")
}

// parseCursor returns what follows the kind of a cursor: 16 bytes, and perhaps more. The decoder skips ends of lines, which no cursor has.
func parseCursor(kind CursorKind, cursor string) ([]byte, error) {
	buf, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(buf) < 17 || buf[0] != byte(kind) || strings.ContainsAny(cursor, "\r\n") {
		return nil, badCursor()
	}
	return buf[1:], nil
}

// Cut turns rows, of which one more than the limit was read, into a page.
func Cut[T any](rows []T, limit int, cursor func(T) string) List[T] {
	l := List[T]{Data: rows}
	if len(rows) > limit {
		l.Data, l.HasMore = rows[:limit], true
	}
	if n := len(l.Data); n > 0 {
		l.Cursor = cursor(l.Data[n-1])
	}
	return l
}
