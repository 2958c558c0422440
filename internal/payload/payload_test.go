package payload_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"math"
	"math/big"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/payload"
)

type order struct {
	ID     string            `json:"id"`
	Amount int64             `json:"amount"`
	Rate   float64           `json:"rate,omitempty"`
	At     time.Time         `json:"at"`
	Tags   []string          `json:"tags,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	Parent *order            `json:"parent,omitempty"`
	Blob   []byte            `json:"blob,omitempty"`
}

type node struct {
	Next *node
	Any  any
}

var zone = time.FixedZone("", 3600)

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 678_901_234, time.UTC)
	long := strings.Repeat("a long text ", 1000)
	for name, v := range map[string]any{
		"bool": true, "zero": 0, "int": -42, "max": uint64(math.MaxUint64), "float": 1.5, "inf": math.Inf(1),
		"empty string": "", "string": "grüezi", "no utf-8": "a\xffb", "bytes": []byte{0, 1, 2}, "no bytes": []byte{}, "nil bytes": []byte(nil),
		"time": at, "zero time": time.Time{}, "duration": time.Minute, "big": *big.NewInt(1).Lsh(big.NewInt(1), 100),
		"list": []int{1, 2, 3}, "nil list": []int(nil), "map": map[string]int{"a": 1}, "int map": map[int]string{7: "seven"}, "nil map": map[string]int(nil),
		"array": [3]byte{1, 2, 3}, "empty struct": struct{}{}, "zero struct": order{}, "pointer": &order{ID: "p"},
		"struct":   order{ID: "o", Amount: 1, Rate: 0.1, At: at, Tags: []string{"a"}, Labels: map[string]string{"k": "v"}, Parent: &order{ID: "q"}, Blob: []byte("x")},
		"text":     netip.MustParseAddr("10.0.0.1"),
		"long":     long,
		"many":     make([]int, 200_000),
		"raw json": json.RawMessage(`{"a":1}`),
		"list any": []any{int64(1), "two", nil, []any{}, map[string]any{"x": at}},
	} {
		for _, codec := range []*payload.Codec{{}, {Compress: -1}, {Compress: 1}} {
			p, err := codec.Encode(v)
			require.NoError(t, err, name)
			back := reflect.New(reflect.TypeOf(v))
			require.NoError(t, payload.Decode(p, back.Interface()), name)
			if b, ok := v.(big.Int); ok {
				got := back.Elem().Interface().(big.Int)
				require.Zero(t, b.Cmp(&got))
				continue
			}
			require.Equal(t, v, back.Elem().Interface(), name)
			require.LessOrEqual(t, cap(p), 2*len(p)+64, "%s: an envelope does not hold on to a large buffer", name)
		}
	}
}

func TestTimesKeepTheirInstant(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, zone)
	p, err := payload.Encode(at)
	require.NoError(t, err)
	var back time.Time
	require.NoError(t, payload.Decode(p, &back))
	require.True(t, at.Equal(back))
	_, offset := back.Zone()
	require.Equal(t, 3600, offset)
	var dynamic any
	require.NoError(t, payload.Decode(p, &dynamic))
	require.IsType(t, time.Time{}, dynamic)
}

func TestDecodeIntoAny(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ in, want any }{
		"nil":    {nil, nil},
		"int":    {uint8(7), int64(7)},
		"huge":   {uint64(math.MaxUint64), new(big.Int).SetUint64(math.MaxUint64)},
		"bytes":  {[]byte("raw"), []byte("raw")},
		"struct": {order{ID: "o"}, map[string]any{"id": "o", "amount": int64(0), "at": nil}},
		"nested": {map[string]any{"a": map[string]int{"b": 1}}, map[string]any{"a": map[string]any{"b": int64(1)}}},
	} {
		p, err := payload.Encode(test.in)
		require.NoError(t, err, name)
		var got any
		require.NoError(t, payload.Decode(p, &got), name)
		require.Equal(t, test.want, got, name)
	}
}

func TestNoValue(t *testing.T) {
	t.Parallel()
	text, list, pointer, dynamic := "", []int(nil), (*order)(nil), any(nil)
	for _, v := range []any{&text, &list, &pointer, &dynamic} {
		require.NoError(t, payload.Decode(nil, v))
		require.True(t, reflect.ValueOf(v).Elem().IsZero())
	}
}

func TestReadsJSON(t *testing.T) {
	t.Parallel()
	p := append(journal.Payload{0x02}, `{"id":"o","amount":7,"at":"2026-01-02T03:04:05Z"}`...)
	var o order
	require.NoError(t, payload.Decode(p, &o))
	require.Equal(t, order{ID: "o", Amount: 7, At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}, o)
}

// The bytes are stored for years: a change of the encoding must be seen here.
func TestEncodingIsPinned(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		v    any
		want string
	}{
		{nil, "01f6"},
		{7, "0107"},
		{"a", "016161"},
		{[]byte("a"), "0361"},
		{map[string]int{"b": 1, "a": 2, "aa": 3}, "01a3616102616201626161" + "03"},
		{struct {
			B int `json:"b"`
			A int `json:"a"`
		}{1, 2}, "01a2616102616201"},
		{time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC), "01c078" + "18" + hex.EncodeToString([]byte("2026-01-02T03:04:05.006Z"))},
	} {
		p, err := payload.Encode(test.v)
		require.NoError(t, err)
		require.Equal(t, test.want, hex.EncodeToString(p))
	}
}

func TestCompression(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("cairn ", 1000)
	small, err := payload.Encode(text)
	require.NoError(t, err)
	require.Equal(t, byte(0x10), small[0])
	require.Less(t, len(small), 200)

	off := payload.Codec{Compress: -1}
	plain, err := off.Encode(text)
	require.NoError(t, err)
	require.Equal(t, byte(0x01), plain[0])

	below, err := payload.Encode(text[:payload.CompressAbove-10])
	require.NoError(t, err)
	require.Equal(t, byte(0x01), below[0], "below the threshold nothing is compressed")

	noise := make([]byte, 4096)
	for i, x := 0, uint32(1); i < len(noise); i++ {
		x = x*1664525 + 1013904223
		noise[i] = byte(x >> 24)
	}
	p, err := payload.Encode(noise)
	require.NoError(t, err)
	require.Equal(t, byte(0x03), p[0], "what does not get smaller is left alone")
}

// The simulation runs engines inside bubbles: what is shared between them must not belong to one.
func TestCompressionInBubbles(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("cairn ", 1000)
	for range 2 {
		synctest.Test(t, func(t *testing.T) {
			p, err := payload.Encode(text)
			require.NoError(t, err)
			var back string
			require.NoError(t, payload.Decode(p, &back))
			require.Equal(t, text, back)
		})
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	w, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	zip := func(b []byte) []byte { return w.EncodeAll(b, []byte{0x10}) }
	bomb := zip(append([]byte{0x03}, make([]byte, payload.MaxSize+1)...))
	layered := []byte{0x01, 0x07}
	for range 8 {
		layered = zip(layered)
	}
	deep := append([]byte{0x01}, bytes.Repeat([]byte{0x81}, 10_000)...)
	var any0 any
	var number int
	for name, test := range map[string]struct {
		p    []byte
		into any
		code cairnerr.Code
		text string
	}{
		"unknown tag":      {[]byte{0xee, 1}, &any0, cairnerr.CodeMalformed, "0xee"},
		"zero tag":         {[]byte{0}, &any0, cairnerr.CodeMalformed, "0x00"},
		"empty cbor":       {[]byte{0x01}, &any0, cairnerr.CodeMalformed, ""},
		"cut cbor":         {[]byte{0x01, 0x63, 'a'}, &any0, cairnerr.CodeMalformed, ""},
		"two values":       {[]byte{0x01, 0x01, 0x01}, &any0, cairnerr.CodeMalformed, ""},
		"claimed length":   {[]byte{0x01, 0x9b, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff}, &any0, cairnerr.CodeMalformed, ""},
		"too deep":         {deep, &any0, cairnerr.CodeMalformed, ""},
		"bad json":         {[]byte("\x02{"), &any0, cairnerr.CodeMalformed, ""},
		"another type":     {[]byte{0x01, 0x61, 'a'}, &number, cairnerr.CodeMalformed, "*int"},
		"bytes into int":   {[]byte{0x03, 1}, &number, cairnerr.CodeMalformed, "*int"},
		"bytes into nil":   {[]byte{0x03, 1}, (*[]byte)(nil), cairnerr.CodeMalformed, ""},
		"no pointer":       {[]byte{0x01, 0x01}, 7, cairnerr.CodeMalformed, "int"},
		"nil pointer":      {[]byte{0x01, 0x01}, (*int)(nil), cairnerr.CodeMalformed, ""},
		"nil":              {[]byte{0x01, 0x01}, nil, cairnerr.CodeMalformed, ""},
		"bad zstd":         {[]byte{0x10, 1, 2, 3}, &any0, cairnerr.CodeMalformed, ""},
		"nothing in zstd":  {[]byte{0x10}, &any0, cairnerr.CodeMalformed, ""},
		"zstd bomb":        {bomb, &any0, cairnerr.CodePayloadTooLarge, ""},
		"too many layers":  {layered, &any0, cairnerr.CodeMalformed, "layers"},
		"encrypted":        {[]byte{0x20, 1, 'k', 1, 2, 3}, &any0, cairnerr.CodeUnsupported, `"k"`},
		"cut key name":     {[]byte{0x20, 9, 'k'}, &any0, cairnerr.CodeMalformed, ""},
		"only a tag":       {[]byte{0x20}, &any0, cairnerr.CodeMalformed, ""},
		"duplicate fields": {[]byte{0x01, 0xa2, 0x61, 'a', 1, 0x61, 'a', 2}, &any0, cairnerr.CodeMalformed, ""},
	} {
		err := payload.Decode(test.p, test.into)
		require.Equal(t, test.code, cairnerr.CodeOf(err), "%s: %v", name, err)
		require.ErrorContains(t, err, test.text, name)
	}
}

func TestUnserialisable(t *testing.T) {
	t.Parallel()
	circle := &node{}
	circle.Next = circle
	loop := map[string]any{}
	loop["self"] = loop
	list := make([]any, 1)
	list[0] = list
	through := &node{}
	through.Any = []any{through}
	for name, v := range map[string]any{
		"chan int":               make(chan int),
		"func()":                 func() {},
		"map[string]chan int":    map[string]chan int{"a": nil},
		"[]interface {}":         []any{func() {}},
		"*payload_test.node":     circle,
		"map[string]interface {": loop,
		"interface {}":           list,
		"node":                   through,
	} {
		_, err := payload.Encode(v)
		require.Equal(t, cairnerr.CodeMalformed, cairnerr.CodeOf(err), "%s: %v", name, err)
		require.ErrorContains(t, err, name)
	}
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	_, err := payload.Encode(make([]byte, payload.MaxSize+1))
	require.Equal(t, cairnerr.CodePayloadTooLarge, cairnerr.CodeOf(err))
	codec := payload.Codec{Compress: -1} // which takes its time with the race detector
	p, err := codec.Encode(make([]byte, payload.MaxSize))
	require.NoError(t, err)
	var back []byte
	require.NoError(t, payload.Decode(p, &back))
	require.Len(t, back, payload.MaxSize)
}

func TestNestingThatIsAcceptedIsReadable(t *testing.T) {
	t.Parallel()
	var v any = "leaf"
	depth := 0
	for {
		p, err := payload.Encode(v)
		if err != nil {
			require.Equal(t, cairnerr.CodeMalformed, cairnerr.CodeOf(err))
			break
		}
		var back any
		require.NoError(t, payload.Decode(p, &back), "depth %d", depth)
		v = []any{v}
		depth++
	}
	require.Greater(t, depth, 100)
}

func TestNothingIsAliased(t *testing.T) {
	t.Parallel()
	in := []byte("hello")
	p, err := payload.Encode(in)
	require.NoError(t, err)
	in[0] = 'J'
	var out []byte
	require.NoError(t, payload.Decode(p, &out))
	require.Equal(t, "hello", string(out))
	out[0] = 'J'
	var again any
	require.NoError(t, payload.Decode(p, &again))
	require.Equal(t, []byte("hello"), again)

	p, err = payload.Encode(order{Blob: []byte("hello")})
	require.NoError(t, err)
	var o order
	require.NoError(t, payload.Decode(p, &o))
	copied := bytes.Clone(p)
	o.Blob[0] = 'J'
	require.Equal(t, copied, []byte(p))

	first, err := payload.Encode("first")
	require.NoError(t, err)
	copied = bytes.Clone(first)
	_, err = payload.Encode("other")
	require.NoError(t, err)
	require.Equal(t, copied, []byte(first), "the pooled buffer is not handed out")
}

func TestDigest(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("cairn ", 1000)
	cipher := newCipher(t, "a")
	var want []byte
	for _, codec := range []*payload.Codec{{Compress: -1}, {}, {Cipher: cipher}, {Cipher: cipher, Bound: []byte("ns")}} {
		p, digest, err := codec.EncodeDigest(text)
		require.NoError(t, err)
		require.Len(t, digest, payload.DigestSize)
		if want == nil {
			want = digest
		}
		require.Equal(t, want, digest)
		got, err := codec.Digest(p)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for name, changed := range map[string]string{
		"longer":            text + ".",
		"another end":       text[:len(text)-1] + ".",
		"another beginning": "." + text[1:],
		"another middle":    text[:3000] + "." + text[3001:],
	} {
		p, err := payload.Encode(changed)
		require.NoError(t, err)
		other, err := payload.Digest(p)
		require.NoError(t, err)
		require.NotEqual(t, want, other, name)
	}

	p, err := payload.Encode(7)
	require.NoError(t, err)
	seven, err := payload.Digest(p)
	require.NoError(t, err)
	require.Equal(t, "ca6c6588fa01171b200740344d354e85", hex.EncodeToString(seven), "digests are stored, and never change")
	_, err = payload.Digest([]byte{0xee})
	require.Equal(t, cairnerr.CodeMalformed, cairnerr.CodeOf(err))
}

// TestTimesThatCannotBeRead refuses years that the text of a time has no room for, wherever they are, and nothing else.
func TestTimesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	far, early := time.Date(12345, 1, 2, 3, 4, 5, 0, time.UTC), time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)
	fine := time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.FixedZone("", 3600))
	cases := map[string]struct {
		value any
		fine  bool
	}{
		"far":            {far, false},
		"early":          {early, false},
		"in a struct":    {order{At: far}, false},
		"behind another": {[]any{strings.Repeat("x", 300), fine, map[string]any{"a": far}}, false},
		"the last":       {fine, true},
		"the first":      {time.Time{}, true},
		"in a list":      {[]time.Time{fine, fine, {}}, true},
		"no time at all": {map[int]any{0xc0: -2.0, 7: []byte{0xc0, 0x63, 'a'}, 0xc0c0c0: math.Inf(1)}, true}, // its bytes look like one
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := payload.Encode(c.value)
			if !c.fine {
				require.ErrorContains(t, err, "between 0 and 9999")
				require.Equal(t, cairnerr.CodeMalformed, cairnerr.CodeOf(err))
				return
			}
			require.NoError(t, err)
			back := reflect.New(reflect.TypeOf(c.value))
			require.NoError(t, payload.Decode(p, back.Interface()))
		})
	}
}
