package postgres

import (
	"encoding/binary"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/cairn-workflow/cairn/internal/journal"
)

// column is one array parameter in PostgreSQL's binary form, built value by value. The driver's own encoding looks at each
// value through an interface; on the path of every event that costs more than the rest of the client.
type column struct {
	oid   uint32 // of the elements
	count uint32
	nulls uint32
	buf   []byte
}

const (
	columnHeader = 20      // dimensions, nulls, element type, length, lower bound
	columnKeep   = 4 << 20 // a larger buffer is not kept for the next batch
)

func (c *column) reset() {
	c.count, c.nulls = 0, 0
	if cap(c.buf) < columnHeader || cap(c.buf) > columnKeep {
		c.buf = make([]byte, columnHeader, 1024)
	}
	c.buf = c.buf[:columnHeader]
}

// param completes the array. It stays good until the next reset.
func (c *column) param() []byte {
	binary.BigEndian.PutUint32(c.buf[0:], 1)
	binary.BigEndian.PutUint32(c.buf[4:], c.nulls)
	binary.BigEndian.PutUint32(c.buf[8:], c.oid)
	binary.BigEndian.PutUint32(c.buf[12:], c.count)
	binary.BigEndian.PutUint32(c.buf[16:], 1)
	return c.buf
}

// value returns one of the array's values by itself, nil if it is null. It stays good until the next reset.
func (c *column) value(i int) []byte {
	for rest := c.buf[columnHeader:]; ; i-- {
		size := max(-1, int(int32(binary.BigEndian.Uint32(rest))))
		rest = rest[4:]
		if i == 0 && size < 0 {
			return nil
		}
		if size = max(0, size); i == 0 {
			return rest[:size:size]
		}
		rest = rest[size:]
	}
}

func (c *column) null() {
	c.count++
	c.nulls = 1
	c.buf = append(c.buf, 0xff, 0xff, 0xff, 0xff)
}

func (c *column) bigint(v int64) {
	c.count++
	c.buf = append(c.buf, 0, 0, 0, 8)
	c.buf = binary.BigEndian.AppendUint64(c.buf, uint64(v))
}

// bigintOrNull stores 0 as null.
func (c *column) bigintOrNull(v int64) {
	if v == 0 {
		c.null()
		return
	}
	c.bigint(v)
}

func (c *column) time(t journal.Time) { c.bigintOrNull(int64(t)) }

func (c *column) integer(v int32) {
	c.count++
	c.buf = append(c.buf, 0, 0, 0, 4)
	c.buf = binary.BigEndian.AppendUint32(c.buf, uint32(v))
}

func (c *column) smallint(v int16) {
	c.count++
	c.buf = append(c.buf, 0, 0, 0, 2)
	c.buf = binary.BigEndian.AppendUint16(c.buf, uint16(v))
}

// id stores the zero id as null.
func (c *column) id(v journal.ID) {
	if v.IsZero() {
		c.null()
		return
	}
	c.count++
	c.buf = append(c.buf, 0, 0, 0, 16)
	c.buf = append(c.buf, v[:]...)
}

func (c *column) text(v string) {
	c.count++
	c.buf = binary.BigEndian.AppendUint32(c.buf, uint32(len(v)))
	c.buf = append(c.buf, v...)
}

// textOrNull stores "" as null.
func (c *column) textOrNull(v string) {
	if v == "" {
		c.null()
		return
	}
	c.text(v)
}

// bytes stores nothing as null.
func (c *column) bytes(v []byte) {
	if len(v) == 0 {
		c.null()
		return
	}
	c.present(v)
}

// present stores bytes of any length.
func (c *column) present(v []byte) {
	c.count++
	c.buf = binary.BigEndian.AppendUint32(c.buf, uint32(len(v)))
	c.buf = append(c.buf, v...)
}

// table is the rows that one statement gets: an array for each column, all of the same length.
type table []column

// The types of columns.
const (
	bigint   = pgtype.Int8OID
	integer  = pgtype.Int4OID
	smallint = pgtype.Int2OID
	uuid     = pgtype.UUIDOID
	text     = pgtype.TextOID
	bytea    = pgtype.ByteaOID
)

func newTable(types ...uint32) table {
	t := make(table, len(types))
	for i, oid := range types {
		t[i].oid = oid
		t[i].reset()
	}
	return t
}

func (t table) reset() {
	for i := range t {
		t[i].reset()
	}
}

// row adds the values of a row to params.
func (t table) row(params [][]byte, i int) [][]byte {
	for c := range t {
		params = append(params, t[c].value(i))
	}
	return params
}

func (t table) rows() int { return int(t[0].count) }

// number is a parameter of type bigint.
func number(v int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(v)) }
