package payload_test

import (
	"encoding/json"
	"errors"
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

func TestFromJSON_AnyText_ComesBackWithoutWhiteSpace(t *testing.T) {
	t.Parallel()
	sealed := &payload.Codec{Cipher: newCipher(t, "a"), Compress: 1}
	for text, want := range map[string]string{
		"null":                             "null",
		"\n[ 1.0,\t-0, 1e400 ]":            "[1.0,-0,1e400]",
		`"a <b> & ü"`:                      `"a <b> & ü"`,
		`{"z": 1, "a": {"b" : [ ] } }`:     `{"z":1,"a":{"b":[]}}`,
		`123456789012345678901234567890.5`: `123456789012345678901234567890.5`,
		`[` + strings.Repeat(`"long text", `, 500) + `1]`: `[` + strings.Repeat(`"long text",`, 500) + `1]`,
	} {
		for _, codec := range []*payload.Codec{{}, sealed} {
			p, err := codec.FromJSON([]byte(text))
			require.NoError(t, err, text)
			back, err := codec.ToJSON(p)
			require.NoError(t, err, text)
			require.Equal(t, want, string(back))
		}
	}
	p, err := payload.FromJSON([]byte(" [ 1 ] "))
	require.NoError(t, err)
	require.Equal(t, journal.Payload("\x02[1]"), p)
	p, err = sealed.FromJSON([]byte("1"))
	require.NoError(t, err)
	_, err = payload.ToJSON(p)
	require.ErrorIs(t, err, payload.ErrNoKey)
	back, err := payload.ToJSON(nil)
	require.NoError(t, err)
	require.Equal(t, "null", string(back))
}

func TestFromJSON_NotJSON_ErrorSaysWhere(t *testing.T) {
	t.Parallel()
	nested := strings.Repeat(`{"a":`, 257) + "1" + strings.Repeat("}", 257)
	for text, want := range map[string]string{
		``:                                     "line 1, column 1: unexpected end of JSON input",
		`{"a":1`:                               "line 1, column 6: unexpected end of JSON input",
		"{\n  \"a\": 1,\n  b\n}":               "line 3, column 3: invalid character 'b' looking for",
		`1 2`:                                  "line 1, column 3: invalid character '2' after top-level value",
		`NaN`:                                  "line 1, column 1: invalid character 'N'",
		"[1,\n\"\xff\"]":                       "line 2, column 2: a byte that is not UTF-8",
		strings.Repeat("[\n", 300):             "line 300, column 2: unexpected end",
		strings.Repeat(`[`, 10_001):            "exceeded max depth",
		`"` + strings.Repeat("[", 300) + `\"[`: "unexpected end",
		nested:                                 "line 1, column 1281: it is nested deeper than 256 levels",
	} {
		_, err := payload.FromJSON([]byte(text))
		require.Equal(t, cairnerr.CodeMalformed, cairnerr.CodeOf(err), "%.40q: %v", text, err)
		require.ErrorContains(t, err, "the value is not JSON: ")
		require.ErrorContains(t, err, want, "%.40q", text)
	}
	_, err := payload.FromJSON([]byte(`"` + strings.Repeat(`[\"`, 600) + `"`))
	require.NoError(t, err, "brackets in a text do not nest")
	_, err = payload.FromJSON([]byte(`"` + strings.Repeat("x", payload.MaxSize) + `"`))
	require.Equal(t, cairnerr.CodePayloadTooLarge, cairnerr.CodeOf(err))
}

// color writes itself as JSON only.
type color int

func (c color) MarshalJSON() ([]byte, error) { return json.Marshal([]string{"red", "green"}[c]) }

func (c *color) UnmarshalJSON(text []byte) error {
	switch string(text) {
	case `"red"`:
		*c = 0
	case `"green"`:
		*c = 1
	default:
		return errors.New("no such colour")
	}
	return nil
}

type form struct {
	Blob   []byte         `json:"blob"`
	ByID   map[int]string `json:"by_id"`
	Color  color          `json:"color"`
	At     time.Time      `json:"at"`
	Amount int64          `json:"amount,string"`
	Meta   raw            `json:"meta"`
	Exact  json.Number    `json:"exact"`
}

func TestFromJSON_IntoAGoType_IsReadAsEncodingJSONDoes(t *testing.T) {
	t.Parallel()
	p, err := payload.FromJSON([]byte(`{"blob": "/w==", "by_id": {"7": "seven"}, "color": "green",
		"at": "2026-01-02T03:04:05Z", "amount": "9007199254740993", "meta": {"b": 1.0, "a": 2}, "exact": 1.00}`))
	require.NoError(t, err)
	var f form
	require.NoError(t, payload.Decode(p, &f))
	require.Equal(t, form{
		Blob: []byte{0xff}, ByID: map[int]string{7: "seven"}, Color: 1, At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Amount: 9007199254740993, Meta: raw(`{"b":1.0,"a":2}`), Exact: "1.00",
	}, f)
	p, err = payload.FromJSON([]byte(`{"color":"blue"}`))
	require.NoError(t, err)
	err = payload.Decode(p, &f)
	require.Equal(t, cairnerr.CodeMalformed, cairnerr.CodeOf(err))
	require.ErrorContains(t, err, "no such colour")
}

// keepsNumbers reads itself, and decides on its own what is in its field.
type keepsNumbers struct{ V any }

func (k *keepsNumbers) UnmarshalJSON(text []byte) error {
	k.V = json.Number(text)
	return nil
}

type dynamic struct {
	Any     any
	Pointer *any
	Map     map[string]any
	Lists   map[string][]any
	Array   [2]any
	Keeps   keepsNumbers
	Next    *dynamic
	Number  json.Number
}

func TestFromJSON_NumbersInInterfaces_AreThoseOfCBOR(t *testing.T) {
	t.Parallel()
	list := `[9007199254740993, 18446744073709551615, 1.0, 0.5, {"n": [7]}, "x", null, true]`
	huge := new(big.Int).SetUint64(math.MaxUint64)
	want := []any{int64(9007199254740993), huge, int64(1), 0.5, map[string]any{"n": []any{int64(7)}}, "x", nil, true}
	seven := any(int64(7))
	p, err := payload.FromJSON([]byte(strings.ReplaceAll(`{"Any": LIST, "Pointer": 7, "Map": {"k": LIST, "n": 7},
		"Lists": {"l": LIST}, "Array": [7, null], "Keeps": 7, "Next": {"Any": 7}, "Number": 1.0}`, "LIST", list)))
	require.NoError(t, err)
	var got dynamic
	require.NoError(t, payload.Decode(p, &got))
	require.Equal(t, dynamic{
		Any: want, Pointer: &seven, Map: map[string]any{"k": want, "n": seven}, Lists: map[string][]any{"l": want},
		Array: [2]any{seven, nil},
		Keeps: keepsNumbers{json.Number("7")}, Next: &dynamic{Any: seven}, Number: "1.0",
	}, got)
	loop := &dynamic{}
	loop.Next = loop
	require.NoError(t, payload.Decode(journal.Payload("\x02{}"), loop), "a value that contains itself ends, too")
	require.Error(t, payload.Decode(p, (*any)(nil)))
	require.Error(t, payload.Decode(p, dynamic{}))
}

func TestToJSON_GoValues_AreThoseOfEncodingJSON(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)
	for _, v := range []any{
		nil, true, 7, int64(math.MinInt64), uint64(math.MaxUint64), 0.1, 1e-9, "a <b> ü", []byte("text"),
		[]byte{},
		at,
		[]any{1, nil, "x"},
		map[string]any{"b": 1, "a": []byte{0xff}},
		map[int]string{1: "one"},
		raw(`{"a":[1]}`),
		big.NewInt(1).Lsh(big.NewInt(1), 100),
		order{ID: "o", Amount: 9007199254740993, Rate: 0.1, At: at, Labels: map[string]string{"k": "v"}, Blob: []byte("x")},
	} {
		p, err := payload.Encode(v)
		require.NoError(t, err)
		got, err := payload.ToJSON(p)
		require.NoError(t, err, "%v", v)
		want, err := json.Marshal(v)
		require.NoError(t, err)
		requireSameJSON(t, want, got)
	}
	for _, v := range []any{math.NaN(), []float64{math.Inf(1)}, map[string]float64{"a": math.Inf(-1)}} {
		p, err := payload.Encode(v)
		require.NoError(t, err)
		_, err = payload.ToJSON(p)
		require.Equal(t, cairnerr.CodeMalformed, cairnerr.CodeOf(err), "%v", v)
		_, err = payload.View(p, 1<<20)
		require.NoError(t, err, "%v", v)
	}
}

// A start or a send that is repeated with the same key must have the same digest, whoever wrote its JSON.
func TestDigest_OfJSONText_IsThatOfTheValue(t *testing.T) {
	t.Parallel()
	type input struct {
		ID     string `json:"id"`
		Amount int    `json:"amount"`
	}
	want, err := payload.Encode(input{"o", 7})
	require.NoError(t, err)
	for _, text := range []string{`{"id":"o","amount":7}`, ` { "amount" : 7.0, "id" : "\u006f" } `} {
		p, err := payload.FromJSON([]byte(text))
		require.NoError(t, err)
		requireSameDigest(t, want, p)
	}
	other, err := payload.FromJSON([]byte(`{"id":"o","amount":8}`))
	require.NoError(t, err)
	first, err := payload.Digest(want)
	require.NoError(t, err)
	second, err := payload.Digest(other)
	require.NoError(t, err)
	require.NotEqual(t, first, second)
	broken, err := payload.Digest(journal.Payload("\x02{"))
	require.NoError(t, err, "what is stored has a digest, whatever it is")
	require.Len(t, broken, payload.DigestSize)
}

func requireSameDigest(t *testing.T, a, b journal.Payload) {
	t.Helper()
	first, err := payload.Digest(a)
	require.NoError(t, err)
	second, err := payload.Digest(b)
	require.NoError(t, err)
	require.Equal(t, first, second)
}
