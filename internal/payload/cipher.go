package payload

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"errors"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
)

// Cipher encrypts and authenticates values. It may be used by several goroutines at once.
type Cipher interface {
	// Key returns the name of the key that new values are sealed with. It is stored in clear, and has at most 255 bytes.
	Key() string
	// Seal encrypts plain with the named key and authenticates additional with it.
	Seal(key string, plain, additional []byte) ([]byte, error)
	// Open reverses Seal. A key that it does not have gives [ErrNoKey].
	Open(key string, sealed, additional []byte) ([]byte, error)
}

// ErrNoKey says that a value was sealed with a key that this process does not have.
var ErrNoKey = errors.New("no such key")

const maxKeyName = 255 // its length is stored in a byte

// seal puts an encrypted layer around an envelope: tag, length of the key's name, the name, ciphertext.
func (c *Codec) seal(inner []byte) (journal.Payload, error) {
	key := c.Cipher.Key()
	if len(key) > maxKeyName {
		return nil, cairnerr.Errorf(cairnerr.CodeLimitExceeded, "the name of an encryption key has %d bytes; at most %d are allowed", len(key), maxKeyName)
	}
	header := make([]byte, 0, 2+len(key)+len(inner)+64)
	header = append(header, tagAESGCM, byte(len(key)))
	header = append(header, key...)
	sealed, err := c.Cipher.Seal(key, inner, c.additional(header))
	if err != nil {
		return nil, cairnerr.Errorf(cairnerr.CodeInternal, "encrypt a payload: %w", err)
	}
	return append(header, sealed...), nil
}

func (c *Codec) open(p []byte) ([]byte, error) {
	if len(p) < 2 || len(p) < 2+int(p[1]) {
		return nil, cairnerr.Errorf(cairnerr.CodeMalformed, "an encrypted payload ends in the name of its key")
	}
	header, sealed := p[:2+int(p[1])], p[2+int(p[1]):]
	key := string(header[2:])
	if c.Cipher == nil {
		return nil, cairnerr.Errorf(cairnerr.CodeUnsupported, "a payload is encrypted with key %q: %w", key, ErrNoKey)
	}
	inner, err := c.Cipher.Open(key, sealed, c.additional(header))
	switch {
	case errors.Is(err, ErrNoKey):
		return nil, cairnerr.Errorf(cairnerr.CodeUnsupported, "a payload is encrypted with key %q: %w", key, err)
	case err != nil:
		return nil, cairnerr.Errorf(cairnerr.CodeCorrupt, "a payload encrypted with key %q was changed, or its key is another: %w", key, err)
	}
	return inner, nil
}

// additional is what is authenticated beside the value: the header, and what the codec is bound to.
func (c *Codec) additional(header []byte) []byte {
	return append(bytes.Clone(header), c.Bound...)
}

// AESGCM is AES-256-GCM with random nonces. One key is good for about four thousand million values; then it must be rotated.
type AESGCM struct {
	current string
	keys    map[string]cipher.AEAD
}

// NewAESGCM returns a cipher that seals with the key named current, and opens with any of keys. Each has 32 bytes.
func NewAESGCM(current string, keys map[string][]byte) (*AESGCM, error) {
	c := &AESGCM{current: current, keys: make(map[string]cipher.AEAD, len(keys))}
	for name, key := range keys {
		if len(key) != 32 {
			return nil, cairnerr.Errorf(cairnerr.CodeMalformed, "encryption key %q has %d bytes; AES-256 wants 32", name, len(key))
		}
		if len(name) > maxKeyName {
			return nil, cairnerr.Errorf(cairnerr.CodeLimitExceeded, "the name of an encryption key has %d bytes; at most %d are allowed", len(name), maxKeyName)
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, cairnerr.Errorf(cairnerr.CodeMalformed, "encryption key %q: %w", name, err)
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return nil, cairnerr.Errorf(cairnerr.CodeMalformed, "encryption key %q: %w", name, err)
		}
		c.keys[name] = aead
	}
	if c.keys[current] == nil {
		return nil, cairnerr.Errorf(cairnerr.CodeMalformed, "the current encryption key %q is not among the keys", current)
	}
	return c, nil
}

// Key implements [Cipher].
func (c *AESGCM) Key() string { return c.current }

// Seal implements [Cipher].
func (c *AESGCM) Seal(key string, plain, additional []byte) ([]byte, error) {
	aead := c.keys[key]
	if aead == nil {
		return nil, ErrNoKey
	}
	return aead.Seal(nil, nil, plain, additional), nil
}

// Open implements [Cipher].
func (c *AESGCM) Open(key string, sealed, additional []byte) ([]byte, error) {
	aead := c.keys[key]
	if aead == nil {
		return nil, ErrNoKey
	}
	return aead.Open(nil, nil, sealed, additional)
}

var _ Cipher = (*AESGCM)(nil)
