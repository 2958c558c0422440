package journal

import (
	"crypto/sha256"
	"fmt"
	"io"

	"github.com/oklog/ulid/v2"

	"github.com/cairn-workflow/cairn/cairnerr"
)

// ID is the 16 bytes of a ULID: 48 bits of milliseconds, then 80 bits that make it unique.
// Ids sort by the time they were made. The zero ID means "none".
type ID [16]byte

// Prefix names the kind of thing that an id stands for, and comes before the ULID in text.
type Prefix string

// The prefixes of Cairn's ids.
const (
	PrefixRun         Prefix = "wrun_"
	PrefixStep        Prefix = "step_"
	PrefixEvent       Prefix = "evnt_"
	PrefixHook        Prefix = "hook_"
	PrefixWait        Prefix = "wait_"
	PrefixAttribute   Prefix = "attr_"
	PrefixMessage     Prefix = "msg_"
	PrefixChunk       Prefix = "chnk_"
	PrefixIncarnation Prefix = "incn_"
)

// Format returns id as text, for example "wrun_01JD0000000000000000000000".
func (p Prefix) Format(id ID) string {
	buf := make([]byte, len(p)+ulid.EncodedSize)
	copy(buf, p)
	_ = ulid.ULID(id).MarshalTextTo(buf[len(p):]) // the buffer has the right size: it cannot fail
	return string(buf)
}

// Parse reads an id of this kind. It is strict: the prefix, 26 characters, the ULID alphabet in capitals.
func (p Prefix) Parse(s string) (ID, error) {
	if len(s) != len(p)+ulid.EncodedSize || s[:len(p)] != string(p) {
		return ID{}, p.malformed(s)
	}
	u, err := ulid.ParseStrict(s[len(p):])
	if err != nil {
		return ID{}, p.malformed(s)
	}
	id := ID(u)
	if id.IsZero() || p.Format(id) != s { // lower case parses too, but is another text for the same id
		return ID{}, p.malformed(s)
	}
	return id, nil
}

func (p Prefix) malformed(s string) error {
	const show = 64
	if len(s) > show {
		s = s[:show] + "…"
	}
	return cairnerr.Errorf(cairnerr.CodeMalformed, "bad id %q: want %s and 26 characters of a ULID", s, p)
}

// Time returns the instant at which id was made.
func (id ID) Time() Time {
	var ms Time
	for _, b := range id[:6] {
		ms = ms<<8 | Time(b)
	}
	return ms
}

func (id *ID) setTime(ms Time) {
	for i := 5; i >= 0; i, ms = i-1, ms>>8 {
		id[i] = byte(ms)
	}
}

// At returns id with another time.
func (id ID) At(t Time) ID {
	id.setTime(t)
	return id
}

// IsZero reports whether id is not set.
func (id ID) IsZero() bool { return id == ID{} }

// Compare orders ids by time of making, then by their random part.
func (id ID) Compare(other ID) int { return ulid.ULID(id).Compare(ulid.ULID(other)) }

// String returns the ULID without a prefix.
func (id ID) String() string { return ulid.ULID(id).String() }

// DeriveID returns the id of a child entity (step, hook, wait) of a run of dialect [Engine]: it follows from the run and
// the memo key, so every attempt, epoch and process computes the same one.
func DeriveID(run ID, kind Prefix, key string) ID {
	buf := make([]byte, 0, 128)
	buf = append(buf, run[:]...)
	buf = append(buf, kind...)
	buf = append(buf, key...)
	sum := sha256.Sum256(buf)
	var id ID
	copy(id[:6], run[:6])
	copy(id[6:], sum[:10])
	return id
}

// Minter makes ids that never decrease, also within one millisecond and when the clock steps back.
// It is not safe for use by several goroutines at once.
type Minter struct {
	entropy io.Reader
	last    ID
}

// NewMinter returns a minter that draws the random part of its ids from entropy.
func NewMinter(entropy io.Reader) *Minter { return &Minter{entropy: entropy} }

// Mint returns a new id made at the given time, greater than all ids this minter returned before.
func (m *Minter) Mint(now Time) (ID, error) {
	if now > m.last.Time() {
		var id ID
		id.setTime(now)
		if _, err := io.ReadFull(m.entropy, id[6:]); err != nil {
			return ID{}, fmt.Errorf("read entropy for an id: %w", err)
		}
		id[6] &= 0x7f // leaves room to count up within the millisecond
		m.last = id
		return id, nil
	}
	for i := len(m.last) - 1; i >= 0; i-- {
		m.last[i]++
		if m.last[i] != 0 {
			break
		}
	}
	return m.last, nil
}
