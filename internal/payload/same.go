package payload

import (
	"bytes"
	"reflect"

	"github.com/cairn-workflow/cairn/internal/journal"
)

// Same is [Codec.Same] with the default codec.
func Same(recorded journal.Payload, into any, now journal.Payload) bool {
	return standard.Same(recorded, into, now)
}

// Same reports whether a recorded value equals the one that the code gives now, for a type that may have changed since.
// It decodes the recorded value into into, which points to a new value of today's type, and encodes that again. An added
// field that is zero makes no difference, nor does a removed one. A recorded value that does not fit the type differs.
func (c *Codec) Same(recorded journal.Payload, into any, now journal.Payload) bool {
	target := reflect.ValueOf(into)
	if target.Kind() != reflect.Pointer || target.IsNil() || c.Decode(recorded, into) != nil {
		return false
	}
	_, digest, err := c.EncodeDigest(target.Elem().Interface())
	if err != nil {
		return false
	}
	want, err := c.Digest(now)
	return err == nil && bytes.Equal(digest, want)
}
