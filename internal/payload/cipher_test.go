package payload_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/payload"
)

func key(b byte) []byte { return bytes.Repeat([]byte{b}, 32) }

// newCipher has the keys "a" and "b", and seals with the named one.
func newCipher(tb testing.TB, current string) *payload.AESGCM {
	tb.Helper()
	c, err := payload.NewAESGCM(current, map[string][]byte{"a": key(1), "b": key(2)})
	require.NoError(tb, err)
	return c
}

func TestEncryption(t *testing.T) {
	t.Parallel()
	secret := strings.Repeat("the secret ", 200)
	codec := &payload.Codec{Cipher: newCipher(t, "a"), Bound: []byte("shop")}
	p, err := codec.Encode(secret)
	require.NoError(t, err)
	require.Equal(t, []byte{0x20, 1, 'a'}, []byte(p[:3]))
	require.Less(t, len(p), 300, "compressed before it is encrypted")
	again, err := codec.Encode(secret)
	require.NoError(t, err)
	require.NotEqual(t, p, again, "each value has its own nonce")

	rotated := &payload.Codec{Cipher: newCipher(t, "b"), Bound: []byte("shop")}
	var back string
	require.NoError(t, rotated.Decode(p, &back), "an older key still opens")
	require.Equal(t, secret, back)

	plain, err := payload.Encode("in clear")
	require.NoError(t, err)
	require.NoError(t, codec.Decode(plain, &back), "what was stored before encryption was switched on is still read")
	require.Equal(t, "in clear", back)
}

func TestEncryptionRefuses(t *testing.T) {
	t.Parallel()
	codec := &payload.Codec{Cipher: newCipher(t, "a"), Bound: []byte("shop")}
	p, err := codec.Encode("secret")
	require.NoError(t, err)

	wrong, err := payload.NewAESGCM("a", map[string][]byte{"a": key(9)})
	require.NoError(t, err)
	without, err := payload.NewAESGCM("b", map[string][]byte{"b": key(2)})
	require.NoError(t, err)
	renamed := bytes.Clone(p)
	renamed[2] = 'b'
	same, err := payload.NewAESGCM("a", map[string][]byte{"a": key(1), "b": key(1)})
	require.NoError(t, err)

	for name, test := range map[string]struct {
		codec *payload.Codec
		p     journal.Payload
		code  cairnerr.Code
	}{
		"wrong key":     {&payload.Codec{Cipher: wrong, Bound: []byte("shop")}, p, cairnerr.CodeCorrupt},
		"key not there": {&payload.Codec{Cipher: without, Bound: []byte("shop")}, p, cairnerr.CodeUnsupported},
		"no cipher":     {&payload.Codec{}, p, cairnerr.CodeUnsupported},
		"other bound":   {&payload.Codec{Cipher: newCipher(t, "a"), Bound: []byte("bank")}, p, cairnerr.CodeCorrupt},
		"renamed key":   {&payload.Codec{Cipher: same, Bound: []byte("shop")}, renamed, cairnerr.CodeCorrupt},
		"cut":           {codec, p[:len(p)-1], cairnerr.CodeCorrupt},
		"no ciphertext": {codec, p[:3], cairnerr.CodeCorrupt},
	} {
		var back any
		err := test.codec.Decode(test.p, &back)
		require.Equal(t, test.code, cairnerr.CodeOf(err), "%s: %v", name, err)
		require.Nil(t, back, name)
	}
	require.ErrorIs(t, (&payload.Codec{}).Decode(p, new(any)), payload.ErrNoKey)

	for i := range p {
		changed := bytes.Clone(p)
		changed[i] ^= 1
		require.Error(t, codec.Decode(changed, new(any)), "byte %d was changed", i)
	}
}

func TestNewAESGCM(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		current string
		keys    map[string][]byte
		code    cairnerr.Code
	}{
		"no keys":     {"a", nil, cairnerr.CodeMalformed},
		"not among":   {"b", map[string][]byte{"a": key(1)}, cairnerr.CodeMalformed},
		"short key":   {"a", map[string][]byte{"a": key(1)[:16]}, cairnerr.CodeMalformed},
		"long a name": {"a", map[string][]byte{"a": key(1), strings.Repeat("n", 256): key(1)}, cairnerr.CodeLimitExceeded},
	} {
		_, err := payload.NewAESGCM(test.current, test.keys)
		require.Equal(t, test.code, cairnerr.CodeOf(err), "%s: %v", name, err)
	}
	_, err := newCipher(t, "a").Seal("c", nil, nil)
	require.ErrorIs(t, err, payload.ErrNoKey)
}
