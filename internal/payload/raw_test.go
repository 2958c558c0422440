package payload_test

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/payload"
)

type raw = json.RawMessage

type document struct {
	ID      string         `json:"id"`
	Meta    raw            `json:"meta"`
	More    *raw           `json:"more,omitempty"`
	List    []raw          `json:"list,omitempty"`
	ByName  map[string]raw `json:"by_name,omitempty"`
	Pair    [2]raw         `json:"pair"`
	Dynamic any            `json:"dynamic,omitempty"`
	Inner   *document      `json:"inner,omitempty"`
}

// unpacked does not compress, so that the bytes of a value can be seen.
var unpacked = payload.Codec{Compress: -1}

func encodeHex(t *testing.T, v any) string {
	t.Helper()
	p, err := unpacked.Encode(v)
	require.NoError(t, err)
	return hex.EncodeToString(p)
}

func TestRawMessage_AnywhereInAValue_IsStoredAsTheValueItHolds(t *testing.T) {
	t.Parallel()
	text := raw(` {"b": [1, 2.5, "x", null, true], "a": {"": -7}} `)
	same := map[string]any{"a": map[string]any{"": -7}, "b": []any{1, 2.5, "x", nil, true}}
	pointer := &text
	for name, test := range map[string]struct{ value, plain any }{
		"top level":       {text, same},
		"pointer":         {pointer, same},
		"pointer to that": {&pointer, same},
		"map":             {map[string]raw{"k": text}, map[string]any{"k": same}},
		"numbered map":    {map[int]raw{3: text}, map[int]any{3: same}},
		"slice":           {[]raw{text, raw("1")}, []any{same, 1}},
		"array":           {[2]raw{text, raw("1")}, []any{same, 1}},
		"interface":       {any(text), same},
		"in interfaces":   {[]any{map[string]any{"k": text}}, []any{map[string]any{"k": same}}},
		"struct": {
			document{
				ID: "d", Meta: text, More: &text, List: []raw{text}, ByName: map[string]raw{"k": text},
				Pair: [2]raw{text, raw("7")}, Dynamic: text,
			},
			map[string]any{
				"id": "d", "meta": same, "more": same, "list": []any{same}, "by_name": map[string]any{"k": same},
				"pair": []any{same, 7}, "dynamic": same,
			},
		},
		"nested": {
			document{Inner: &document{Meta: text}},
			map[string]any{
				"id": "", "meta": nil, "pair": []any{nil, nil},
				"inner": map[string]any{"id": "", "meta": same, "pair": []any{nil, nil}},
			},
		},
		"empty text": {raw(`""`), ""},
		"nil":        {raw(nil), nil},
		"empty":      {[]raw{{}, nil, raw("null")}, []any{nil, nil, nil}},
		"far":        {[]any{strings.Repeat("long ", 1000), text}, []any{strings.Repeat("long ", 1000), same}},
	} {
		require.Equal(t, encodeHex(t, test.plain), encodeHex(t, test.value), name)
	}
}

func TestRawMessage_AnywhereInAValue_IsReadAsCompactJSON(t *testing.T) {
	t.Parallel()
	text := raw(`{"a":[1,2.5,"<x>"],"b":null}`)
	pointer := &text
	for name, v := range map[string]any{
		"top level": text, "pointer": pointer, "pointer to that": &pointer,
		"map": map[string]raw{"k": text, "none": nil}, "numbered map": map[int]raw{-3: text},
		"slice": []raw{text, raw("1"), nil}, "array": [1]raw{text},
		"struct": document{
			ID: "d", Meta: text, More: &text, List: []raw{text, raw(`"x"`)}, ByName: map[string]raw{"k": text},
			Pair:  [2]raw{raw("-7")},
			Inner: &document{Meta: text, Inner: &document{Meta: raw("[]")}},
		},
		"slice of structs": []document{{Meta: text}, {}},
		"map of structs":   map[string]*document{"k": {Meta: text}, "none": nil},
	} {
		p, err := payload.Encode(v)
		require.NoError(t, err, name)
		back := reflect.New(reflect.TypeOf(v))
		require.NoError(t, payload.Decode(p, back.Interface()), name)
		require.Equal(t, v, back.Elem().Interface(), name)
	}

	p, err := payload.Encode(document{Dynamic: raw(" [ {\"a\" : 1} ] ")})
	require.NoError(t, err)
	var d document
	require.NoError(t, payload.Decode(p, &d))
	require.Equal(t, []any{map[string]any{"a": int64(1)}}, d.Dynamic)
}

func TestRawMessage_AnyStoredValue_IsReadAsItsJSON(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)
	bought := order{ID: "o", Amount: 9007199254740993, At: at, Blob: []byte{0xff}}
	for want, v := range map[string]any{
		`7`:                          7,
		`"a<b"`:                      "a<b",
		`[1.5,true,null]`:            []any{1.5, true, nil},
		`{"1":"one"}`:                map[int]string{1: "one"},
		`"2026-01-02T03:04:05.006Z"`: at,
		`{"amount":9007199254740993,"at":"2026-01-02T03:04:05.006Z","blob":"/w==","id":"o"}`: bought,
		`18446744073709551615`: uint64(math.MaxUint64),
		`1e+20`:                1e20,
	} {
		p, err := payload.Encode(v)
		require.NoError(t, err)
		var back raw
		require.NoError(t, payload.Decode(p, &back), "%v", v)
		require.Equal(t, want, string(back))
		p, err = payload.Encode(map[string]any{"meta": v})
		require.NoError(t, err)
		var d document
		require.NoError(t, payload.Decode(p, &d), "%v", v)
		require.Equal(t, want, string(d.Meta), "in a struct")
	}
	var back raw
	require.NoError(t, payload.Decode(nil, &back))
	require.Nil(t, back)
	p, err := payload.Encode(map[string]any{"list": []any{1, math.NaN()}})
	require.NoError(t, err)
	err = payload.Decode(p, &document{})
	require.Equal(t, cairnerr.CodeMalformed, cairnerr.CodeOf(err))
	require.ErrorContains(t, err, "the value at list[1] has no JSON: JSON has no number for NaN")
}

// A workflow may declare a type for what it took as JSON before.
func TestRawMessage_StoredBefore_IsReadIntoAStruct(t *testing.T) {
	t.Parallel()
	text := raw(`{"id":"x","amount":9007199254740993,"rate":1e2,"at":"2026-01-02T03:04:05Z","tags":["a"]}`)
	p, err := payload.Encode(map[string]raw{"o": text})
	require.NoError(t, err)
	var back map[string]order
	require.NoError(t, payload.Decode(p, &back))
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	require.Equal(t, order{ID: "x", Amount: 9007199254740993, Rate: 100, At: at, Tags: []string{"a"}}, back["o"])
}

// Older versions have stored a json.RawMessage as a byte string. These are bytes that they have written.
func TestRawMessage_StoredAsBytesByOlderVersions_IsReadAsItsText(t *testing.T) {
	t.Parallel()
	bytesOf := func(text string) string {
		require.Less(t, len(text), 24)
		return hex.EncodeToString(append([]byte{0x40 | byte(len(text))}, text...))
	}
	for _, test := range [][2]string{
		{`{"a":1}`, `{"a":1}`},
		{` {"a" : 1.0, "a":0}`, `{"a":1.0,"a":0}`},
		{`null`, `null`},
		{`9007199254740993`, `9007199254740993`},
		{`{"cut":`, `{"cut":`},
		{"\xff\x00", "\xff\x00"},
		{``, ``},
	} {
		text, want := test[0], test[1]
		p, err := hex.DecodeString("01" + bytesOf(text))
		require.NoError(t, err)
		var back raw
		require.NoError(t, payload.Decode(p, &back), text)
		require.Equal(t, want, string(back), text)

		// {"id":"d","meta":…,"pair":[…,null]}
		p, err = hex.DecodeString("01a3" + "626964" + "6164" + "646d657461" + bytesOf(text) +
			"6470616972" + "82" + bytesOf(text) + "f6")
		require.NoError(t, err)
		var d document
		require.NoError(t, payload.Decode(p, &d), text)
		require.Equal(t, want, string(d.Meta), text)
		require.Equal(t, want, string(d.Pair[0]), text)
		require.Nil(t, d.Pair[1])
	}
	var back raw
	require.NoError(t, payload.Decode(journal.Payload("\x03{ }"), &back), "a []byte that is read as JSON now")
	require.Equal(t, "{}", string(back))
	require.Error(t, payload.Decode(journal.Payload("\x03{}"), (*raw)(nil)))
}

func TestRawMessage_NotJSON_ErrorSaysWhere(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", payload.MaxDepth+1) + strings.Repeat("]", payload.MaxDepth+1)
	for name, test := range map[string]struct {
		value any
		text  string
	}{
		"top level": {raw(`{"a":x}`), "the json.RawMessage is not JSON: line 1, column 6: invalid character 'x'"},
		"cut":       {raw(`{"a":`), "the json.RawMessage is not JSON: line 1, column 5: unexpected end"},
		"two":       {raw(`1 2`), "line 1, column 3: invalid character '2' after top-level value"},
		"blank":     {raw(` `), "the json.RawMessage is not JSON"},
		"lines":     {raw("{\n \"a\": 1,\n}"), "line 3, column 1: invalid character '}'"},
		"struct": {
			document{Inner: &document{List: []raw{raw("1"), raw("nope")}}},
			"the json.RawMessage at inner.list[1] is not JSON: line 1, column 2",
		},
		"map":  {map[int]any{7: map[string]any{"k": raw("]")}}, "the json.RawMessage at 7.k is not JSON"},
		"deep": {raw(deep), "line 1, column 257: it is nested deeper than 256 levels"},
	} {
		_, err := payload.Encode(test.value)
		require.Equal(t, cairnerr.CodeMalformed, cairnerr.CodeOf(err), "%s: %v", name, err)
		require.ErrorContains(t, err, test.text, name)
	}
}

func TestRawMessage_AsDeepAsIsAccepted_IsReadable(t *testing.T) {
	t.Parallel()
	text := raw(strings.Repeat("[", payload.MaxDepth) + "1e99999" + strings.Repeat("]", payload.MaxDepth))
	depth := 0
	for v := (tree{Raw: text}); ; v = (tree{Kids: []tree{v}}) {
		p, err := payload.Encode(v)
		if err != nil {
			require.ErrorContains(t, err, "nested deeper")
			break
		}
		var back tree
		require.NoError(t, payload.Decode(p, &back))
		require.Equal(t, v, back)
		require.NoError(t, payload.Decode(p, new(raw)))
		depth += 2
	}
	require.Equal(t, payload.MaxDepth, depth)
}

type tree struct {
	Kids []tree
	Raw  raw
}

// onlyJSON writes itself as JSON, and has been stored as the struct that it is.
type onlyJSON struct{ A int }

func (onlyJSON) MarshalJSON() ([]byte, error)  { return []byte(`"json"`), nil }
func (*onlyJSON) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, new(string)) }

type someBytes []byte

// The digests of inputs are in journals: values without a json.RawMessage keep their bytes, also where one could be.
func TestEncoding_WithoutRawMessage_IsPinned(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		v    any
		want string
	}{
		{map[string]any{"b": []any{1, "x", 2.5}, "a": nil}, "01a26161f661628301617" + "8f94100"},
		{[]any{[]byte("a"), someBytes("b"), json.Number("7"), onlyJSON{1}}, "018441614162" + "6137" + "a1614101"},
		{document{ID: "d"}, "01a3" + "626964" + "6164" + "646d657461f6" + "647061697282f6f6"},
		{struct {
			N json.Number
			B someBytes
		}{"9", nil}, "01a26142f6614e6139"},
		{any(uint64(math.MaxUint64)), "011bffffffffffffffff"},
		{
			[]any{*big.NewInt(7), 1.0, time.Unix(0, 0).UTC()},
			"018307f93c00c074" + hex.EncodeToString([]byte("1970-01-01T00:00:00Z")),
		},
	} {
		require.Equal(t, test.want, encodeHex(t, test.v), "%#v", test.v)
	}
	var back []onlyJSON
	require.NoError(t, payload.Decode(journal.Payload("\x01\x81\xa1\x61A\x05"), &back))
	require.Equal(t, []onlyJSON{{5}}, back)
}
