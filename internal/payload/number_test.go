package payload_test

import (
	"encoding/json"
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/payload"
)

func bigInt(digits string) *big.Int {
	i, ok := new(big.Int).SetString(digits, 10)
	if !ok {
		panic(digits)
	}
	return i
}

// numbers are numbers of JSON: as they are in a json.RawMessage and in a view, and in an empty interface.
var numbers = []struct {
	text    string
	shown   string // "": as it was
	dynamic any
}{
	{"0", "", int64(0)},
	{"-0", "0", int64(0)},
	{"-0.0e99999999999", "0", int64(0)},
	{"7", "", int64(7)},
	{"-1", "", int64(-1)},
	{"1.0", "1", int64(1)},
	{"1e2", "100", int64(100)},
	{"-12.50e+1", "-125", int64(-125)},
	{"9007199254740993", "", int64(9007199254740993)},
	{"9007199254740993.0", "9007199254740993", int64(9007199254740993)},
	{"9223372036854775807", "", int64(math.MaxInt64)},
	{"-9223372036854775808", "", int64(math.MinInt64)},
	{"9223372036854775808", "", bigInt("9223372036854775808")},
	{"18446744073709551615", "", bigInt("18446744073709551615")},
	{"1.8446744073709551615e19", "18446744073709551615", bigInt("18446744073709551615")},
	{"-18446744073709551616", "", bigInt("-18446744073709551616")},
	{"100000000000000000000", "", bigInt("100000000000000000000")},
	{"123456789012345678901234567890", "", bigInt("123456789012345678901234567890")},
	{"-123456789012345678901234567890", "", bigInt("-123456789012345678901234567890")},
	{"123456789012345678901234567890.0", "123456789012345678901234567890", bigInt("123456789012345678901234567890")},
	{"0.1", "", 0.1},
	{"1.50", "1.5", 1.5},
	{"1e19", "10000000000000000000", bigInt("10000000000000000000")},
	{"1e20", "1e+20", 1e20},
	{"1e-7", "", 1e-7},
	{"1.7976931348623157e308", "1.7976931348623157e+308", math.MaxFloat64},
	{"5e-324", "", 5e-324},
	{"0.12345678901234567890", "", 0.12345678901234568},
	{"12345678.123456789012345678", "", 12345678.123456789012345678},
	{"1e-400", "", 0.0},
}

func shownAs(text, shown string) string {
	if shown == "" {
		return text
	}
	return shown
}

func TestNumbers_InARawMessage_KeepTheirDigits(t *testing.T) {
	t.Parallel()
	for _, n := range numbers {
		want := shownAs(n.text, n.shown)
		stored, err := payload.Encode(raw(n.text))
		require.NoError(t, err, n.text)
		inside, err := payload.Encode(map[string]any{"N": raw(n.text)})
		require.NoError(t, err, n.text)
		fromJSON := journal.Payload("\x02" + n.text)

		var back raw
		require.NoError(t, payload.Decode(stored, &back), n.text)
		require.Equal(t, want, string(back))
		view, err := payload.View(stored, 1<<20)
		require.NoError(t, err)
		require.Equal(t, want, string(view))

		again, err := payload.Encode(back)
		require.NoError(t, err)
		require.Equal(t, stored, again, "%s: what is read and stored again has the same bytes", n.text)

		for name, p := range map[string]journal.Payload{"CBOR": stored, "JSON": fromJSON} {
			var dynamic any
			require.NoError(t, payload.Decode(p, &dynamic), "%s as %s", n.text, name)
			require.Equal(t, n.dynamic, dynamic, "%s as %s", n.text, name)
		}
		var number json.Number
		require.NoError(t, payload.Decode(stored, &number), n.text)
		require.Equal(t, want, number.String())
		require.NoError(t, payload.Decode(fromJSON, &number), n.text)
		require.Equal(t, n.text, number.String())
		var s struct{ N *json.Number }
		require.NoError(t, payload.Decode(inside, &s), n.text)
		require.Equal(t, want, s.N.String())

		f, err := json.Number(n.text).Float64()
		require.NoError(t, err)
		var float struct{ N float64 }
		if _, large := n.dynamic.(*big.Int); !large { // which the CBOR library reads into no float64
			require.NoError(t, payload.Decode(inside, &float), n.text)
			require.InDelta(t, f, float.N, 0, n.text)
		}
	}
}

func TestNumbers_FromGo_AreReadAsTheirDigits(t *testing.T) {
	t.Parallel()
	for want, v := range map[string]any{
		"9007199254740993":               int64(9007199254740993),
		"18446744073709551615":           uint64(math.MaxUint64),
		"-5":                             int8(-5),
		"2.5":                            2.5,
		"1.5":                            float32(1.5),
		"123456789012345678901234567890": bigInt("123456789012345678901234567890"),
		"42":                             json.Number("42"),
	} {
		p, err := payload.Encode(map[string]any{"n": []any{v}})
		require.NoError(t, err)
		var back map[string][]json.Number
		require.NoError(t, payload.Decode(p, &back), want)
		require.Equal(t, []json.Number{json.Number(want)}, back["n"])
	}
	p, err := payload.Encode(true)
	require.NoError(t, err)
	require.Error(t, payload.Decode(p, new(json.Number)), "what is no number")
	p, err = payload.Encode(math.Inf(1))
	require.NoError(t, err)
	require.Error(t, payload.Decode(p, new(json.Number)), "what JSON has no number for")
}

func TestNumbers_TooLargeForFloat64_AreKeptAndRefusedInAnInterface(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"1e1000", "-1.5e99999999999999999999"} {
		p, err := payload.Encode(raw(text))
		require.NoError(t, err)
		require.Less(t, len(p), 50, "it is not expanded")
		var back raw
		require.NoError(t, payload.Decode(p, &back))
		require.Equal(t, text, string(back))
		fromJSON := journal.Payload("\x02" + text)
		for _, p := range []journal.Payload{p, fromJSON} {
			require.ErrorContains(t, payload.Decode(p, new(any)), "too large for a float64")
			require.Error(t, payload.Decode(p, new(float64)))
		}
	}
	p, err := payload.Encode(raw("1e350"))
	require.NoError(t, err)
	var whole any
	require.NoError(t, payload.Decode(p, &whole))
	require.IsType(t, new(big.Int), whole)
}
