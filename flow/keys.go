package flow

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/payload"
)

// KeySize is how many bytes a key has.
const KeySize = 32

// Keys are the secrets from which tokens are made. New tokens are made with the current key; what was made with any of
// the others is still taken, so that keys can be rotated.
type Keys struct {
	current string
	all     map[string][]byte
}

// NewKeys returns keys by their names. Each has [KeySize] random bytes; the names are shown in tokens.
func NewKeys(current string, keys map[string][]byte) (*Keys, error) {
	k := &Keys{current: current, all: map[string][]byte{}}
	for name, key := range keys {
		k.all[name] = append([]byte(nil), key...)
	}
	if _, err := payload.NewAESGCM(current, k.all); err != nil {
		return nil, cairnerr.Errorf(cairnerr.CodeMalformed, "the keys of flows: %w", err)
	}
	return k, nil
}

// derive returns a key for one purpose, so that no two purposes share a key.
func derive(key []byte, purpose string) []byte {
	own, err := hkdf.Key(sha256.New, key, nil, "cairn flow: "+purpose, KeySize)
	if err != nil {
		panic(err) // only a size that no hash can give is an error
	}
	return own
}

// codec returns what encrypts for one purpose. What was sealed for one purpose does not open for another.
func (k *Keys) codec(purpose, bound string) *payload.Codec {
	derived := make(map[string][]byte, len(k.all))
	for name, key := range k.all {
		derived[name] = derive(key, purpose)
	}
	cipher, err := payload.NewAESGCM(k.current, derived)
	if err != nil {
		panic(err) // NewKeys has made one with keys of the same sizes
	}
	return &payload.Codec{Compress: -1, Cipher: cipher, Bound: []byte(purpose + "\x00" + bound)} // compressed, the length would tell of the content
}

// mac returns a text's authentication code with a key, nil if there is no such key.
func (k *Keys) mac(name, purpose, text string) []byte {
	key := k.all[name]
	if key == nil {
		return nil
	}
	h := hmac.New(sha256.New, derive(key, purpose))
	h.Write([]byte(text))
	return h.Sum(nil)
}

// sealSame encrypts such that the same text gives the same bytes, so that a request that is repeated can be recognised.
// The key for the text follows from the text, so no two texts are ever encrypted with one key and nonce.
func (k *Keys) sealSame(purpose string, plain []byte) ([]byte, error) {
	tag := k.mac(k.current, purpose+" tag", string(plain))
	aead, err := k.aeadOf(k.current, purpose, tag)
	if err != nil {
		return nil, err
	}
	head := append([]byte{byte(len(k.current))}, k.current...)
	head = append(head, tag...)
	return aead.Seal(head, make([]byte, aead.NonceSize()), plain, head), nil
}

// openSame reverses sealSame.
func (k *Keys) openSame(purpose string, sealed []byte) ([]byte, error) {
	if len(sealed) < 1+sha256.Size || len(sealed) < 1+int(sealed[0])+sha256.Size {
		return nil, errUnsealable
	}
	head, body := sealed[:1+int(sealed[0])+sha256.Size], sealed[1+int(sealed[0])+sha256.Size:]
	name, tag := string(head[1:1+int(sealed[0])]), head[1+int(sealed[0]):]
	if k.all[name] == nil {
		return nil, errUnsealable
	}
	aead, err := k.aeadOf(name, purpose, tag)
	if err != nil {
		return nil, err
	}
	plain, err := aead.Open(nil, make([]byte, aead.NonceSize()), body, head)
	if err != nil || !hmac.Equal(tag, k.mac(name, purpose+" tag", string(plain))) {
		return nil, errUnsealable
	}
	return plain, nil
}

var errUnsealable = cairnerr.Errorf(cairnerr.CodeMalformed, "what was sent to a flow cannot be decrypted")

// aeadOf returns what encrypts the text with a tag.
func (k *Keys) aeadOf(name, purpose string, tag []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(derive(k.all[name], purpose+" text "+string(tag)))
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
