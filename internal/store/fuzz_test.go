package store

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
)

// FuzzCursor: a cursor that is read is one that was made, for each kind; all others are refused with a code.
func FuzzCursor(f *testing.F) {
	f.Add(IDCursor(CursorRuns, journal.ID{1, 2, 3}))
	f.Add(NumberCursor(CursorEvents, 7, -1))
	f.Add(textCursor(CursorValues, "value", journal.ID{9}))
	f.Add("")
	f.Add("cg")
	f.Add("r\x00==")
	f.Fuzz(func(t *testing.T, cursor string) {
		for kind := range CursorKind(255) {
			if id, err := ParseIDCursor(kind, cursor); accepted(t, cursor, err) {
				require.Equal(t, cursor, IDCursor(kind, id))
			}
			if a, b, err := ParseNumberCursor(kind, cursor); accepted(t, cursor, err) {
				require.Equal(t, cursor, NumberCursor(kind, a, b))
			}
			if text, id, err := parseTextCursor(kind, cursor); accepted(t, cursor, err) {
				require.Equal(t, cursor, textCursor(kind, text, id))
			}
		}
	})
}

// accepted reports whether a cursor was read. The empty one always is.
func accepted(t *testing.T, cursor string, err error) bool {
	t.Helper()
	if err != nil {
		require.NotEmpty(t, cursor)
		require.Equal(t, cairnerr.CodeMalformed, cairnerr.CodeOf(err))
	}
	return err == nil && cursor != ""
}

// FuzzRunExtra: what is read of a run's rare fields is what writing it again gives, and anything else is said to be damaged.
func FuzzRunExtra(f *testing.F) {
	for _, r := range []*journal.Run{{}, {Deployment: "d", Context: []byte("c")}, {Root: journal.ID{1}, ForkedFrom: journal.ID{2}}} {
		blob, err := EncodeRunExtra(r)
		require.NoError(f, err)
		f.Add(blob)
	}
	f.Add([]byte{0xbf, 0xff})
	f.Add(bytes.Repeat([]byte{0x81}, 100))
	f.Fuzz(func(t *testing.T, blob []byte) {
		var r, again journal.Run
		if err := DecodeRunExtra(blob, &r); err != nil {
			require.Equal(t, cairnerr.CodeCorrupt, cairnerr.CodeOf(err))
			return
		}
		written, err := EncodeRunExtra(&r)
		require.NoError(t, err)
		require.NoError(t, DecodeRunExtra(written, &again))
		if len(r.Context) == 0 {
			r.Context, again.Context = nil, nil
		}
		require.Equal(t, r, again)
	})
}
