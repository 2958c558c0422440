package payload_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/payload"
)

func BenchmarkCodec(b *testing.B) {
	small := order{ID: "order-1", Amount: 4200, At: time.Unix(1, 0).UTC()}
	values := map[string]any{"int": 7, "small": small, "large": strings.Repeat("some text that repeats, ", 400)}
	codecs := map[string]*payload.Codec{"plain": {}, "sealed": {Cipher: newCipher(b, "a")}}
	for value, v := range values {
		for name, codec := range codecs {
			p, err := codec.Encode(v)
			require.NoError(b, err)
			b.Run("encode/"+value+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := codec.Encode(v); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run("decode/"+value+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					var back any
					if err := codec.Decode(p, &back); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
