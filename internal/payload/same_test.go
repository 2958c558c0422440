package payload_test

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/payload"
)

type recordedV1 struct {
	ID     string         `json:"id"`
	Amount int            `json:"amount"`
	Labels map[string]any `json:"labels,omitempty"`
}

type withNote struct {
	ID     string         `json:"id"`
	Amount int            `json:"amount"`
	Labels map[string]any `json:"labels,omitempty"`
	Note   string         `json:"note"`
}

type withoutAmount struct {
	ID     string         `json:"id"`
	Labels map[string]any `json:"labels,omitempty"`
}

type renamed struct {
	ID     string         `json:"id"`
	Cents  int            `json:"cents"`
	Labels map[string]any `json:"labels,omitempty"`
}

func TestSame_ValueOfATypeThatChanged_ToldFromAnotherValue(t *testing.T) {
	t.Parallel()
	labels := map[string]any{"b": 1, "a": []any{"x", 2.5}}
	was := recordedV1{ID: "o", Amount: 7, Labels: labels}
	text := strings.Repeat("long ", 1000)
	for name, test := range map[string]struct {
		was, now any
		same     bool
	}{
		"nothing changed":        {was, was, true},
		"added field":            {was, withNote{ID: "o", Amount: 7, Labels: labels}, true},
		"added field with value": {was, withNote{ID: "o", Amount: 7, Labels: labels, Note: "n"}, false},
		"removed field":          {was, withoutAmount{"o", labels}, true},
		"removed, and changed":   {was, withoutAmount{"p", labels}, false},
		"renamed field":          {was, renamed{"o", 7, labels}, false},
		"changed value":          {was, recordedV1{ID: "o", Amount: 8, Labels: labels}, false},
		"changed in a map":       {was, recordedV1{"o", 7, map[string]any{"b": 2, "a": []any{"x", 2.5}}}, false},
		"reordered list":         {was, recordedV1{"o", 7, map[string]any{"b": 1, "a": []any{2.5, "x"}}}, false},
		"reordered map":          {map[string]int{"a": 1, "b": 2}, map[string]int{"b": 2, "a": 1}, true},
		"struct from a map":      {map[string]any{"amount": 7, "id": "o"}, recordedV1{ID: "o", Amount: 7}, true},
		"int to int64":           {7, int64(7), true},
		"int to uint8":           {7, uint8(7), true},
		"int to uint8, too big":  {700, uint8(188), false},
		"int to float":           {7, 7.0, true},
		"int to string":          {7, "7", false},
		"int to empty string":    {7, "", false},
		"string to int":          {"7", 7, false},
		"pointer":                {was, &was, true},
		"nil":                    {nil, (*recordedV1)(nil), true},
		"bytes":                  {[]byte("x"), []byte("x"), true},
		"other bytes":            {[]byte("x"), []byte("y"), false},
		"compressed":             {text, text, true},
		"compressed and other":   {text, text + ".", false},
		"JSON text":              {raw(`{"amount":7,"id":"o"}`), recordedV1{ID: "o", Amount: 7}, true},
		"exact number":           {raw("1.00000000000000000001"), raw("1.00000000000000000002"), false},
	} {
		recorded, err := payload.Encode(test.was)
		require.NoError(t, err, name)
		sealed := &payload.Codec{Compress: -1, Cipher: newCipher(t, "a")}
		for _, codec := range []*payload.Codec{{}, sealed} {
			now, err := codec.Encode(test.now)
			require.NoError(t, err, name)
			into := reflect.New(reflect.TypeOf(test.now))
			require.Equal(t, test.same, codec.Same(recorded, into.Interface(), now), name)
		}
	}
}

func TestSame_RecordOfAnOlderVersion_IsTheSame(t *testing.T) {
	t.Parallel()
	now, err := payload.Encode(document{ID: "d", Meta: raw("null")})
	require.NoError(t, err)
	old := journal.Payload("\x01\xa3\x62id\x61d\x64meta\x44null\x64pair\x82\xf6\xf6")
	require.NotEqual(t, now, old)
	require.True(t, payload.Same(old, new(document), now), "a json.RawMessage that was stored as bytes")

	now, err = payload.Encode(raw(`{"a":1,"b":2}`))
	require.NoError(t, err)
	require.True(t, payload.Same(journal.Payload("\x01\x4e{\"b\":2, \"a\":1}"), new(raw), now))
	require.False(t, payload.Same(journal.Payload("\x01\x4e{\"b\":2, \"a\":2}"), new(raw), now))

	started, err := payload.FromJSON([]byte(`{"amount": 7, "id": "o"}`))
	require.NoError(t, err)
	now, err = payload.Encode(recordedV1{ID: "o", Amount: 7})
	require.NoError(t, err)
	require.True(t, payload.Same(started, new(recordedV1), now))
	require.True(t, payload.Same(now, new(recordedV1), started))
}

func TestSame_WhatCannotBeReadOrWritten_IsAnother(t *testing.T) {
	t.Parallel()
	now, err := payload.Encode(7)
	require.NoError(t, err)
	zero, err := payload.Encode(0)
	require.NoError(t, err)
	for name, recorded := range map[string]journal.Payload{
		"unknown": {0xee}, "cut": {0x01, 0x63, 'a'}, "zstd": {0x10, 1}, "encrypted": {0x20, 1, 'k', 1},
		"JSON": journal.Payload("\x02{"),
	} {
		require.False(t, payload.Same(recorded, new(int), now), name)
		require.False(t, payload.Same(recorded, new(int), zero), name)
	}
	require.True(t, payload.Same(now, new(int), now))
	require.False(t, payload.Same(now, new(int), journal.Payload{0xee}), "what is given now cannot be read")
	require.False(t, payload.Same(now, (*int)(nil), now))
	require.False(t, payload.Same(now, 7, now))
	require.False(t, payload.Same(now, nil, now))

	old := journal.Payload("\x01\x41{")
	require.NoError(t, payload.Decode(old, new(json.RawMessage)))
	require.False(t, payload.Same(old, new(json.RawMessage), old), "what cannot be written any more")
	infinite, err := payload.Encode(math.Inf(1))
	require.NoError(t, err)
	require.False(t, payload.Same(infinite, new(json.RawMessage), infinite))
}
