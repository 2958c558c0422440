package payload_test

import (
	"bytes"
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

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
		for _, v := range []any{new(document), new(outer), new(numbered), new(raw), new(json.Number)} {
			if err := codec.Decode(b, v); err != nil {
				require.NotEqual(t, cairnerr.CodeInternal, cairnerr.CodeOf(err))
			}
		}
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

// FuzzJSON: JSON that is stored is the same JSON when it is read, with the same numbers.
func FuzzJSON(f *testing.F) {
	for _, n := range numbers {
		f.Add([]byte(n.text))
	}
	for _, text := range []string{
		`{"a":[1,2.5,"x",null,true,false],"b":{"":{}},"c":[]}`, ` [ 1 , 2 ] `,
		`"\ud800\u0000<&>\\"`, `{"a":1,"a":{"b":1e-400}}`,
		`[18446744073709551615,-18446744073709551616,1e400,1e99999999999]`, "\"\xff\"", `{"\ud800":1,"\ud801":2}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		stored, err := payload.Encode(raw(text))
		if err != nil {
			require.Equal(t, cairnerr.CodeMalformed, cairnerr.CodeOf(err))
			require.False(t, json.Valid(text) && len(text) <= payload.MaxDepth, "%q: %v", text, err)
			return
		}
		if len(text) == 0 {
			text = []byte("null")
		}
		var back raw
		require.NoError(t, payload.Decode(stored, &back))
		if back == nil {
			back = raw("null")
		}
		requireSameJSON(t, text, back)
		view, err := payload.View(stored, 1<<20)
		require.NoError(t, err)
		require.Equal(t, string(back), string(view))
		again, err := payload.Encode(back)
		require.NoError(t, err)
		require.Equal(t, stored, again)
		p, err := payload.FromJSON(text)
		if !utf8.Valid(text) {
			require.ErrorContains(t, err, "UTF-8")
			return
		}
		require.NoError(t, err)
		back, err = payload.ToJSON(p)
		require.NoError(t, err)
		requireSameJSON(t, text, back)
		requireSameDigest(t, stored, p)
		var dynamic [2]any
		first, second := payload.Decode(stored, &dynamic[0]), payload.Decode(p, &dynamic[1])
		require.Equal(t, first == nil, second == nil, "%v and %v", first, second)
		if first == nil {
			require.Equal(t, dynamic[0], dynamic[1], "an interface has the same, however it is stored")
		}
	})
}

// requireSameJSON fails unless two texts are the same JSON. Numbers are compared as decimals, without float64.
func requireSameJSON(t *testing.T, want, got []byte) {
	t.Helper()
	var trees [2]any
	for i, text := range [][]byte{want, got} {
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		require.NoError(t, dec.Decode(&trees[i]), "%q", text)
		trees[i] = plainNumbers(trees[i])
	}
	require.Equal(t, trees[0], trees[1], "%q became %q", want, got)
}

// plainNumbers writes equal numbers in the same way.
func plainNumbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key := range v {
			v[key] = plainNumbers(v[key])
		}
	case []any:
		for i := range v {
			v[i] = plainNumbers(v[i])
		}
	case json.Number:
		_, exponent, _ := strings.Cut(strings.ToLower(v.String()), "e")
		if size, err := strconv.Atoi(exponent); exponent == "" || err == nil && size > -1000 && size < 1000 {
			if r, ok := new(big.Rat).SetString(v.String()); ok {
				return json.Number(r.RatString())
			}
		}
		if mantissa, _, _ := strings.Cut(strings.ToLower(v.String()), "e"); strings.Trim(mantissa, "-0.") == "" {
			return json.Number("0")
		}
	}
	return v
}
