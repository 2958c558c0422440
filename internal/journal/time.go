package journal

import (
	"fmt"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
)

// Time is an instant in milliseconds since the Unix epoch, UTC. Zero means "not set".
//
// The journal stores milliseconds, so it also computes in them: an instant read back is equal to
// the one written, which does not hold for [time.Time].
type Time int64

// wireTime is RFC 3339 in UTC with exactly three digits of milliseconds.
const wireTime = "2006-01-02T15:04:05.000Z07:00"

// TimeOf converts t, dropping what is finer than a millisecond.
func TimeOf(t time.Time) Time {
	if t.IsZero() {
		return 0
	}
	const most = 1 << 62 // a hundred million years; beyond that milliseconds do not fit
	if s := t.Unix(); s > most/1000 || s < -most/1000 {
		if s < 0 {
			return -most
		}
		return most
	}
	return Time(t.UnixMilli())
}

// Std returns t as a [time.Time] in UTC; the zero Time gives the zero time.Time.
func (t Time) Std() time.Time {
	if t == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(t)).UTC()
}

// Add returns t moved by d, rounded towards zero to whole milliseconds.
func (t Time) Add(d time.Duration) Time { return t + Time(d.Milliseconds()) }

// IsZero reports whether t is not set.
func (t Time) IsZero() bool { return t == 0 }

// String formats t as on the wire; the zero Time gives "".
func (t Time) String() string {
	if t == 0 {
		return ""
	}
	return t.Std().Format(wireTime)
}

// MarshalText implements [encoding.TextMarshaler].
func (t Time) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (t *Time) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*t = 0
		return nil
	}
	parsed, err := time.Parse(time.RFC3339Nano, string(b))
	if err != nil {
		return cairnerr.Errorf(cairnerr.CodeMalformed, "bad time %q: want RFC 3339, for example 2026-01-02T15:04:05.000Z", b)
	}
	*t = TimeOf(parsed)
	return nil
}

var _ fmt.Stringer = Time(0)
