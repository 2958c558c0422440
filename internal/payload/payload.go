package payload

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"sync"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
)

// The first bytes of envelopes. They are stored, and never change.
const (
	tagCBOR   = 0x01
	tagJSON   = 0x02
	tagRaw    = 0x03
	tagZstd   = 0x10
	tagAESGCM = 0x20
)

const (
	// MaxSize is how many bytes a value may have before compression and encryption. It also bounds what a
	// compressed envelope can blow up to.
	MaxSize = 64 << 20
	// CompressAbove is the size in bytes from which values are compressed, unless the codec says otherwise.
	CompressAbove = 1 << 10
	// DigestSize is the length of a digest in bytes.
	DigestSize = 16

	maxLayers   = 4       // envelopes around envelopes; we write two at most
	maxPooled   = 1 << 20 // a buffer that has grown beyond this is not kept
	nullInCBOR  = 0xf6
	codecHeader = 1
)

// Codec says how values are written. Its zero value compresses and does not encrypt. It may be used by
// several goroutines at once, and reads what any other codec wrote, as long as it has the keys.
type Codec struct {
	// Compress is the size in bytes from which a value is compressed, if that makes it smaller.
	// Defaults to CompressAbove; -1 disables.
	Compress int
	// Cipher encrypts values. Defaults to nil: they are stored in clear.
	Cipher Cipher
	// Bound is authenticated with each encrypted value, for example a namespace: what was sealed under one does not open under
	// another.
	Bound []byte
}

var standard Codec

// Encode puts v into an envelope with the default codec.
func Encode(v any) (journal.Payload, error) { return standard.Encode(v) }

// Decode reads an envelope with the default codec into v, which must be a pointer.
func Decode(p journal.Payload, v any) error { return standard.Decode(p, v) }

// Digest returns the digest of the value in an envelope that is not encrypted.
func Digest(p journal.Payload) ([]byte, error) { return standard.Digest(p) }

// buffers hold values while they are encoded.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// Encode puts v into an envelope. A json.RawMessage, wherever it is in v, is stored as the value it holds; an empty one
// as null.
func (c *Codec) Encode(v any) (journal.Payload, error) {
	p, _, err := c.encode(v, false)
	return p, err
}

// EncodeDigest puts v into an envelope and returns the digest of the value with it, see [Codec.Digest].
func (c *Codec) EncodeDigest(v any) (journal.Payload, []byte, error) { return c.encode(v, true) }

func (c *Codec) encode(v any, digested bool) (p journal.Payload, digest []byte, err error) {
	buf := buffers.Get().(*bytes.Buffer)
	defer func() {
		if buf.Cap() <= maxPooled {
			buffers.Put(buf)
		}
	}()
	buf.Reset()
	if err := write(buf, v); err != nil {
		return nil, nil, err
	}
	plain := buf.Bytes()
	if len(plain)-codecHeader > MaxSize {
		return nil, nil, cairnerr.Errorf(cairnerr.CodePayloadTooLarge, "a value of type %T has %d bytes; at most %d are allowed", v, len(plain)-codecHeader, MaxSize)
	}
	if digested {
		digest = sum(plain)
	}
	p, err = c.wrap(plain)
	return p, digest, err
}

// write appends the value in its codec, without layers.
func write(buf *bytes.Buffer, v any) error {
	if raw, ok := v.([]byte); ok && raw != nil {
		buf.WriteByte(tagRaw)
		buf.Write(raw)
		return nil
	}
	if err := checkDepth(v); err != nil {
		return err
	}
	buf.WriteByte(tagCBOR)
	start := buf.Len()
	if err := encodeCBOR(buf, v); err != nil {
		return cairnerr.Errorf(cairnerr.CodeMalformed, "a value of type %T cannot be stored: %w", v, err)
	}
	if unreadableTime(buf.Bytes()[start:]) {
		return cairnerr.Errorf(cairnerr.CodeMalformed, "a value of type %T cannot be stored: it holds a time whose year is not between 0 and 9999", v)
	}
	return nil
}

// wrap puts the layers around an encoded value, which it does not keep.
func (c *Codec) wrap(plain []byte) (journal.Payload, error) {
	above := c.Compress
	if above == 0 {
		above = CompressAbove
	}
	inner := plain
	if above > 0 && len(plain) >= above {
		if small := compress(plain); len(small) < len(plain) {
			inner = small
		}
	}
	if c.Cipher != nil {
		return c.seal(inner)
	}
	return bytes.Clone(inner), nil // the buffer goes back to its pool, and compression wants more room than it leaves filled
}

// Decode reads an envelope into v, which must be a pointer. In an empty interface, maps become map[string]any and lists
// []any. A whole number becomes an int64, or a *big.Int if it does not fit: it keeps its digits. Other numbers become
// float64.
//
// A json.RawMessage, wherever it is in v, gets the stored value as compact JSON; null gives nil. A json.Number gets the
// digits.
func (c *Codec) Decode(p journal.Payload, v any) error {
	plain, err := c.unwrap(p)
	if err != nil {
		return err
	}
	if len(plain) == 0 {
		plain = []byte{tagCBOR, nullInCBOR}
	}
	switch tag, body := plain[0], plain[codecHeader:]; tag {
	case tagCBOR:
		err = decodeCBOR(body, v)
	case tagJSON:
		err = readJSON(body, v)
	case tagRaw:
		return readRaw(body, v)
	}
	if err != nil {
		return cairnerr.Errorf(cairnerr.CodeMalformed, "the stored value cannot be read into %T: %w", v, err)
	}
	return nil
}

func readRaw(body []byte, v any) error {
	switch v := v.(type) {
	case *[]byte:
		if v != nil {
			*v = append([]byte{}, body...)
			return nil
		}
	case *json.RawMessage:
		if v != nil {
			*v = storedText(body)
			return nil
		}
	case *any:
		if v != nil {
			*v = append([]byte{}, body...)
			return nil
		}
	}
	return cairnerr.Errorf(cairnerr.CodeMalformed, "the stored value is plain bytes, and cannot be read into %T", v)
}

// Digest returns the digest of the value in an envelope: of its bytes as they were before compression and encryption, so that
// equal values have equal digests however they are stored. JSON text has the digest of a json.RawMessage that holds it.
func (c *Codec) Digest(p journal.Payload) ([]byte, error) {
	plain, err := c.unwrap(p)
	if err != nil {
		return nil, err
	}
	if len(plain) > 0 && plain[0] == tagJSON {
		var buf bytes.Buffer
		if err := write(&buf, json.RawMessage(plain[codecHeader:])); err == nil {
			return sum(buf.Bytes()), nil
		}
	}
	return sum(plain), nil
}

func sum(plain []byte) []byte {
	full := sha256.Sum256(plain)
	return bytes.Clone(full[:DigestSize])
}

// unwrap takes the layers off, down to a value in a codec that we know. The result may share memory with p.
func (c *Codec) unwrap(p journal.Payload) ([]byte, error) {
	for inner, layers := []byte(p), 0; layers <= maxLayers; layers++ {
		if len(inner) == 0 {
			if layers == 0 {
				return nil, nil
			}
			break
		}
		var err error
		switch tag := inner[0]; tag {
		case tagCBOR, tagJSON, tagRaw:
			return inner, nil
		case tagZstd:
			inner, err = decompress(inner[1:])
		case tagAESGCM:
			inner, err = c.open(inner)
		default:
			err = cairnerr.Errorf(cairnerr.CodeMalformed, "a payload begins with 0x%02x, which this program does not know", tag)
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, cairnerr.Errorf(cairnerr.CodeMalformed, "a payload has layers, but no value in them")
}
