package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
)

func TestParseID(t *testing.T) {
	t.Parallel()
	const good = "wrun_01KDVDNA00ABCDEFGHJKMNPQRS"
	id, err := PrefixRun.Parse(good)
	require.NoError(t, err)
	require.Equal(t, good, PrefixRun.Format(id))
	require.Equal(t, good[5:], id.String())
	for name, bad := range map[string]string{
		"empty":         "",
		"prefix only":   "wrun_",
		"other prefix":  "step_" + good[5:],
		"no prefix":     good[5:],
		"short":         good[:len(good)-1],
		"long":          good + "0",
		"lower case":    strings.ToLower(good),
		"mixed case":    "wrun_01KDVDNA00aBCDEFGHJKMNPQRS",
		"letter I":      "wrun_01KDVDNA00IBCDEFGHJKMNPQRS",
		"letter L":      "wrun_01KDVDNA00LBCDEFGHJKMNPQRS",
		"letter O":      "wrun_01KDVDNA00OBCDEFGHJKMNPQRS",
		"letter U":      "wrun_01KDVDNA00UBCDEFGHJKMNPQRS",
		"overflow":      "wrun_81KDVDH400ABCDEFGHJKMNPQRS",
		"zero":          "wrun_00000000000000000000000000",
		"space before":  " " + good[:len(good)-1],
		"space within":  "wrun_01KDVDNA00 BCDEFGHJKMNPQRS",
		"not ASCII":     "wrun_01KDVDNA00ÄBCDEFGHJKMNPQR",
		"NUL":           "wrun_01KDVDNA00\x00BCDEFGHJKMNPQRS",
		"very long":     strings.Repeat("x", 1000),
		"capital":       "WRUN_01KDVDNA00ABCDEFGHJKMNPQRS",
		"position":      (&Event{Seq: 7}).IDText(ID{}, World6),
		"health check":  "wrun_hc_01KDVDNA00ABCDEFGHJKMNPQ",
		"line break":    good + "\n",
		"without under": "wrun" + good[5:] + "0",
	} {
		_, err := PrefixRun.Parse(bad)
		require.Equal(t, cairnerr.CodeMalformed, cairnerr.CodeOf(err), name)
		require.Less(t, len(err.Error()), 300, name)
	}
}

func TestIDTime(t *testing.T) {
	t.Parallel()
	id, err := NewMinter(zeros{}).Mint(t0)
	require.NoError(t, err)
	require.Equal(t, t0, id.Time())
	require.Equal(t, "2026-01-01T00:00:00.000Z", id.Time().String())
	require.Equal(t, "01KDVDNA000000000000000000", id.String())
	require.True(t, ID{}.IsZero())
	require.False(t, id.IsZero())
}

func TestMinter(t *testing.T) {
	t.Parallel()
	m := NewMinter(bytes.NewReader(bytes.Repeat([]byte{0xff}, 1000)))
	mint := func(now Time) ID {
		id, err := m.Mint(now)
		require.NoError(t, err)
		return id
	}
	last := mint(t0)
	require.Equal(t, byte(0x7f), last[6], "the top bit is left free to count up")
	for _, now := range []Time{t0, t0, t0 + 1, t0 + 1, t0 - 1000, t0 - 1_000_000, 0, t0 + 2, t0 + 1} {
		id := mint(now)
		require.Positive(t, id.Compare(last), "ids increase, also when the clock steps back")
		require.GreaterOrEqual(t, id.Time(), last.Time())
		last = id
	}
}

func TestMinterCountsOverTheMillisecond(t *testing.T) {
	t.Parallel()
	m := NewMinter(zeros{})
	m.last = testID(0)
	for i := 6; i < 16; i++ {
		m.last[i] = 0xff
	}
	before := m.last
	id, err := m.Mint(t0)
	require.NoError(t, err)
	require.Positive(t, id.Compare(before))
	require.Equal(t, t0+1, id.Time(), "a full millisecond borrows from the next")
	next, err := m.Mint(t0 + 1)
	require.NoError(t, err)
	require.Positive(t, next.Compare(id))
}

func TestMinterWithoutEntropy(t *testing.T) {
	t.Parallel()
	m := NewMinter(strings.NewReader("short"))
	_, err := m.Mint(t0)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.True(t, m.last.IsZero(), "a failure leaves nothing behind")
}

// zeros is entropy without any.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// Derived ids are stored: another value here means that old runs do not find their steps.
func TestDeriveIDIsStable(t *testing.T) {
	t.Parallel()
	run := testID(1)
	for _, test := range []struct {
		kind Prefix
		key  string
		want string
	}{
		{PrefixStep, "charge", "step_01KDVDNA00QTXCG0HMB42RD3WQ"},
		{PrefixStep, "charge#2", "step_01KDVDNA00JRWW6C9EJM7K6HSV"},
		{PrefixHook, "charge", "hook_01KDVDNA001ZJ30T8YHEMRHZR5"},
		{PrefixWait, "", "wait_01KDVDNA00XZAC0D0HTAWG7627"},
	} {
		id := DeriveID(run, test.kind, test.key)
		require.Equal(t, test.want, test.kind.Format(id))
		require.Equal(t, run.Time(), id.Time())
		require.Equal(t, id, DeriveID(run, test.kind, test.key))
		require.NotEqual(t, id, DeriveID(testID(2), test.kind, test.key))
	}
}

func TestEventIDs(t *testing.T) {
	t.Parallel()
	for d := range Dialect(dialects) {
		var last string
		for _, e := range []Event{{Seq: 1, At: t0}, {Seq: 2, At: t0}, {Seq: 256, At: t0}, {Seq: 65536, At: t0}, {Seq: 65537, At: t0 + 1}, {Seq: 1<<24 - 1, At: t0 + 1}} {
			text := e.IDText(theRun, d)
			require.Greater(t, text, last, "ids sort as positions do")
			last = text
			seq, err := ParseEventID(text, d)
			require.NoError(t, err)
			require.Equal(t, e.Seq, seq)
			if d == World6 {
				require.Equal(t, fmt.Sprintf("evnt_%026d", e.Seq), text, "the position is the id")
				continue
			}
			id, err := PrefixEvent.Parse(text)
			require.NoError(t, err)
			require.Equal(t, e.At, id.Time())
			require.NotEqual(t, text, e.IDText(another, d), "another run has other ids")
		}
	}
	for _, bad := range []string{
		"", "evnt_", "42", "evnt_42", "evnt_00000000000000000000000000", "wevt_00000000000000000000000042", "evnt_0000000000000000000000004x",
		"evnt_-0000000000000000000000042", "evnt_+000000000000000000000042", "evnt_99999999999999999999999999", "evnt_000000000000000000000000420",
	} {
		for _, d := range []Dialect{World3, World6} {
			_, err := ParseEventID(bad, d)
			require.Equal(t, cairnerr.CodeMalformed, cairnerr.CodeOf(err), bad)
		}
	}
}

func FuzzParseID(f *testing.F) {
	f.Add("wrun_01KDVDNA00ABCDEFGHJKMNPQRS")
	f.Add("wrun_00000000000000000000000000")
	f.Add("evnt_00000000000000000000000042")
	f.Add("evnt_01KDVDNA0000000ABCDEFGHJKM")
	f.Add("evnt_")
	f.Fuzz(func(t *testing.T, s string) {
		for _, p := range []Prefix{PrefixRun, PrefixStep, PrefixEvent, PrefixMessage} {
			id, err := p.Parse(s)
			if err != nil {
				require.Equal(t, cairnerr.CodeMalformed, cairnerr.CodeOf(err))
				continue
			}
			require.Equal(t, s, p.Format(id), "one id has one text")
			require.False(t, id.IsZero())
		}
		if seq, err := ParseEventID(s, World6); err == nil {
			require.Equal(t, s, (&Event{Seq: seq}).IDText(ID{}, World6))
		}
		if id, err := PrefixEvent.Parse(s); err == nil {
			seq, err := ParseEventID(s, World3)
			require.NoError(t, err)
			require.Equal(t, s, (&Event{Seq: seq, At: id.Time()}).IDText(id, World3))
		}
		if e := new(cairnerr.Error); errors.As(PrefixRun.malformed(s), &e) {
			require.NotEmpty(t, e.Message)
		}
	})
}
