package payload_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/payload"
)

// FuzzDecode: no bytes make Decode panic, a refusal has a code, and what was read can be written and read again.
func FuzzDecode(f *testing.F) {
	codec := &payload.Codec{Cipher: newCipher(f, "a")}
	for _, v := range []any{nil, 7, "text", []byte("raw"), map[string]any{"a": []any{1, 2.5, true}}, strings.Repeat("zip ", 500)} {
		for _, c := range []*payload.Codec{{}, codec} {
			p, err := c.Encode(v)
			require.NoError(f, err)
			f.Add([]byte(p))
		}
	}
	f.Add([]byte("\x02{\"a\":[1,null]}"))
	f.Add([]byte{0x10, 0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0xff, 0xff, 0xff, 0x03})
	f.Add([]byte{0x20, 1, 'a'})
	f.Add([]byte{0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		var o order
		_ = codec.Decode(b, &o)
		if view, err := codec.View(b, 1<<20); err == nil {
			require.True(t, json.Valid(view), "%q", view)
		}
		var v any
		if err := codec.Decode(b, &v); err != nil {
			require.NotEqual(t, cairnerr.CodeInternal, cairnerr.CodeOf(err))
			return
		}
		digest, err := codec.Digest(b)
		require.NoError(t, err)
		require.Len(t, digest, payload.DigestSize)
		p, err := codec.Encode(v)
		if err != nil {
			return // read with a tag or depth that we do not write
		}
		var again any
		require.NoError(t, codec.Decode(p, &again))
	})
}
