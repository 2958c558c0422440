package payload_test

import (
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/payload"
)

func TestView(t *testing.T) {
	t.Parallel()
	huge, _ := new(big.Int).SetString("123456789012345678901234567890", 10)
	for want, v := range map[string]any{
		`null`:                           nil,
		`"a<b & ü"`:                      "a<b & ü",
		`"text"`:                         []byte("text"),
		`"/w=="`:                         []byte{0xff},
		`{"a":["/w==",1,2.5,true]}`:      map[string]any{"a": []any{[]byte{0xff}, 1, 2.5, true}},
		`{"1":"one","2":{"-3":[]}}`:      map[int]any{1: "one", 2: map[int]any{-3: []any{}}},
		`["NaN","-Inf"]`:                 []float64{math.NaN(), math.Inf(-1)},
		`"2026-01-02T03:04:05.000006Z"`:  time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC),
		`123456789012345678901234567890`: huge,
		`9223372036854775807`:            int64(math.MaxInt64),
	} {
		p, err := payload.Encode(v)
		require.NoError(t, err)
		view, err := payload.View(p, 1<<20)
		require.NoError(t, err, "%v", v)
		require.Equal(t, want, string(view))
	}
	view, err := payload.View(nil, 1<<20)
	require.NoError(t, err)
	require.Equal(t, "null", string(view))
	view, err = payload.View(journal.Payload("\x02 {\"a\": 1}"), 1<<20)
	require.NoError(t, err)
	require.JSONEq(t, `{"a":1}`, string(view), "JSON stays as it is")

	long, err := payload.Encode(strings.Repeat("zip ", 1000))
	require.NoError(t, err)
	view, err = payload.View(long, 1<<20)
	require.NoError(t, err)
	require.Len(t, view, 4002, "what is compressed is shown, too")
	_, err = payload.View(long, 4000)
	require.Equal(t, cairnerr.CodePayloadTooLarge, cairnerr.CodeOf(err))
}

func TestViewNeedsTheKey(t *testing.T) {
	t.Parallel()
	codec := &payload.Codec{Cipher: newCipher(t, "a")}
	p, err := codec.Encode("secret")
	require.NoError(t, err)
	_, err = payload.View(p, 1<<20)
	require.ErrorIs(t, err, payload.ErrNoKey)
	view, err := codec.View(p, 1<<20)
	require.NoError(t, err)
	require.Equal(t, `"secret"`, string(view))
}
