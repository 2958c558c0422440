package schema_test

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/schema"
)

type base struct {
	ID   int
	kept string //nolint:unused // it is not exported, so it is not described
}

type embedding struct {
	base
	Name string `json:"name,omitempty"`
	Skip string `json:"-"`
}

type tree struct {
	Value int
	Kids  []tree
}

type address struct{ Addr netip.Addr }

type quoted struct {
	N int `json:",string"`
}

func TestOf_EachKind_IsDescribed(t *testing.T) {
	t.Parallel()
	for want, of := range map[string]reflect.Type{
		`{"type":"boolean"}`:                                                 reflect.TypeFor[bool](),
		`{"type":"string"}`:                                                  reflect.TypeFor[string](),
		`{"type":"integer","format":"int64"}`:                                reflect.TypeFor[int](),
		`{"type":"integer","format":"uint8"}`:                                reflect.TypeFor[uint8](),
		`{"type":"number","format":"float32"}`:                               reflect.TypeFor[float32](),
		`{"type":"string","format":"date-time"}`:                             reflect.TypeFor[time.Time](),
		`{"type":["string","null"],"format":"byte"}`:                         reflect.TypeFor[[]byte](),
		`{"type":["string","null"]}`:                                         reflect.TypeFor[*string](),
		`{"type":["array","null"],"items":{"type":"string"}}`:                reflect.TypeFor[[]string](),
		`{"type":["object","null"],"additionalProperties":{"format":"any"}}`: reflect.TypeFor[map[string]any](),
		`{"type":"number"}`:                                                  reflect.TypeFor[json.Number](),
		`{"type":["string","null"],"format":"date-time"}`:                    reflect.TypeFor[*time.Time](),
		`{"format":"any"}`:                                                   reflect.TypeFor[any](),
		"":                                                                   reflect.TypeFor[json.RawMessage](),
	} {
		require.Equal(t, want, string(schema.Of(of)), of)
	}
	properties := `{"ID":{"type":"integer","format":"int64"},"name":{"type":"string"}}`
	require.Equal(t, `{"type":"object","properties":`+properties+`}`, string(schema.Of(reflect.TypeFor[embedding]())))
	for _, of := range []reflect.Type{
		reflect.TypeFor[address](),         // a part of it reads itself
		reflect.TypeFor[quoted](),          // it is written in another way
		reflect.TypeFor[netip.Addr](),      // it reads itself
		reflect.TypeFor[tree](),            // the depth is limited
		reflect.TypeFor[[4]byte](),         // how it is written depends
		reflect.TypeFor[fmt.Stringer](),    // it cannot be read at all
		reflect.TypeFor[map[string]tree](), // too large, too
	} {
		name, t2 := schema.TypeOf(schema.Of(of))
		require.NotEmpty(t, name, of)
		require.Equal(t, of, t2, "the type itself can tell")
		require.False(t, schema.Complete(schema.Of(of)))
	}
	name, _ := schema.TypeOf(schema.Of(reflect.TypeFor[map[string]any]()))
	require.Empty(t, name, "anything fits")
}

func TestCheck_EachValue_FitsIfGoWouldReadIt(t *testing.T) {
	t.Parallel()
	type all struct {
		Int    int
		Small  int8
		Plus   uint
		Ratio  float64
		Text   string
		Flag   bool
		At     time.Time
		Blob   []byte
		List   []int
		ByName map[string]int
		ByNum  map[int]string
		Next   *all
		Any    any
		Tagged string `json:"tag"`
	}
	of := schema.Of(reflect.TypeFor[all]())
	fits := []string{
		`{}`, `{"Int":-1}`, `{"int":1}`, `{"Small":127}`,
		`{"Plus":0}`, `{"Ratio":1}`, `{"Ratio":1e3}`, `{"Text":""}`, `{"Flag":true}`,
		`{"At":"2026-01-02T03:04:05Z"}`, `{"Blob":"eA=="}`, `{"Blob":null}`,
		`{"List":[1,2]}`, `{"List":null}`, `{"ByName":{"a":1}}`,
		`{"ByNum":{"1":"a"}}`, `{"Next":null}`, `{"Next":{"Int":1}}`,
		`{"Any":[{"x":null}]}`, `{"tag":"x"}`, `{"unknown":[1]}`,
	}
	for _, value := range fits {
		require.NoError(t, schema.Check(of, []byte(value)), value)
		require.NoError(t, json.Unmarshal([]byte(value), new(all)), value)
	}
	refused := []string{
		`1`, `"x"`, `[]`, `{"Int":"1"}`, `{"Int":1.5}`,
		`{"Int":1.0}`, `{"Int":1e3}`, `{"Int":9223372036854775808}`, `{"INT":"1"}`, `{"Small":128}`,
		`{"Plus":-1}`, `{"Ratio":"1"}`, `{"Ratio":1e999}`, `{"Text":1}`,
		`{"Text":{}}`, `{"Flag":1}`, `{"At":"yesterday"}`, `{"At":1}`,
		`{"Blob":"?"}`, `{"List":1}`, `{"List":["x"]}`,
		`{"ByName":[]}`, `{"ByName":{"a":"x"}}`, `{"ByNum":{"a":"x"}}`, `{"Next":1}`,
		`{"Next":{"Int":"x"}}`, `{"tag":1}`, `{]`, ``,
	}
	for _, value := range refused {
		err := schema.Check(of, []byte(value))
		require.Equal(t, cairnerr.CodeValueRefused, cairnerr.CodeOf(err), value)
		require.Error(t, json.Unmarshal([]byte(value), new(all)), value)
	}
}

func TestCheck_ManyMistakes_NamesTheirPlaces(t *testing.T) {
	t.Parallel()
	of := schema.Of(reflect.TypeFor[map[string][]tree]())
	err := schema.Check(of, []byte(`{"a":[{"Value":"x"},{"Kids":[{"Value":true}]}]}`))
	require.ErrorContains(t, err, "value.a[0].Value is string, and should be integer")
	require.ErrorContains(t, err, "value.a[1].Kids[0].Value is boolean, and should be integer")
	list := "[" + strings.Repeat(`"x",`, 100) + `"x"]`
	err = schema.Check(schema.Of(reflect.TypeFor[[]int]()), []byte(list))
	require.Equal(t, 10, strings.Count(err.Error(), "should be"), "it is not a novel")
}

func TestCheck_NoSchema_TakesAnything(t *testing.T) {
	t.Parallel()
	require.NoError(t, schema.Check(nil, []byte(`{]`)))
	require.Equal(t, cairnerr.CodeCorrupt, cairnerr.CodeOf(schema.Check([]byte(`{`), []byte(`1`))))
	newer := []byte(`{"type":"string","format":"of a newer program","more":1}`)
	require.NoError(t, schema.Check(newer, []byte(`"x"`)))
}

func TestComplete_PartsThatReadThemselves_AreNot(t *testing.T) {
	t.Parallel()
	for of, want := range map[reflect.Type]bool{
		reflect.TypeFor[embedding]():          true,
		reflect.TypeFor[map[int][]string]():   true,
		reflect.TypeFor[address]():            false,
		reflect.TypeFor[[]any]():              false,
		reflect.TypeFor[map[string][4]byte](): false,
		reflect.TypeFor[any]():                false,
	} {
		require.Equal(t, want, schema.Complete(schema.Of(of)), of)
	}
}

// FuzzCheck looks for values that make a check panic, and for values that fit and cannot be read.
func FuzzCheck(f *testing.F) {
	type value struct {
		Int   int32
		Ratio float32
		At    *time.Time
		Blob  []byte
		List  []map[int]uint8
		Text  string `json:"text"`
	}
	of := schema.Of(reflect.TypeFor[value]())
	seeds := []string{`{"Int":1}`, `{"list":[{"1":255}]}`, `{"At":null,"blob":"eA=="}`, `{"At":""}`, `null`, `{"Ratio":1e39}`, `{} {}`}
	for _, seed := range seeds {
		f.Add(string(of), seed)
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, any, text string) {
		_ = schema.Check([]byte(any), []byte(text))
		_ = schema.Complete([]byte(any))
		if json.Valid([]byte(text)) && schema.Check(of, []byte(text)) == nil {
			require.NoError(t, json.Unmarshal([]byte(text), new(value)))
		}
	})
}
