package form_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"net/netip"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/form"
)

type login struct {
	Email    string `json:"email" jsonschema:"title=E-mail address,format=email"`
	Password string `json:"password" form:"password" jsonschema:"minLength=8,description=At least eight characters."`
	Keep     bool   `json:"keep"`
}

type street struct {
	Street string `json:"street"`
	Zip    string `json:"zip" jsonschema:"pattern=^[0-9]{4\\,5}$"`
}

type stamped struct {
	CreatedBy string `json:"createdBy,omitempty"`
}

type orderLine struct {
	Article string `json:"article"`
	Qty     uint8  `json:"qty" jsonschema:"minimum=1,default=1"`
	Gift    bool   `json:"gift"`
}

// order has a field of each kind.
type order struct {
	stamped
	Name     string            `json:"name" jsonschema:"maxLength=20"`
	Size     string            `json:"size" choices:"s=Small,m=Medium\\, sold out" form:"radio"`
	Toppings []string          `json:"toppings,omitempty" jsonschema:"enum=cheese,enum=ham,uniqueItems=true"`
	Tags     []string          `json:"tags,omitempty" jsonschema:"maxItems=3,minLength=2"`
	Number   int64             `json:"number,omitempty"`
	Small    int8              `json:"small" jsonschema:"maximum=10,default=3"`
	Ratio    *float32          `json:"ratio" jsonschema:"multipleOf=0.5"`
	Exact    json.Number       `json:"exact,omitempty"`
	Agree    *bool             `json:"agree" form:"select"`
	Home     street            `json:"home"`
	Work     *street           `json:"work"`
	Lines    []orderLine       `json:"lines,omitempty"`
	Extra    map[string]string `json:"extra,omitempty"`
	Born     string            `json:"born,omitempty" jsonschema:"format=date"`
	At       time.Time         `json:"at,omitzero"`
	Addr     netip.Addr        `json:"addr,omitzero"`
	Photo    []byte            `json:"photo,omitempty"`
	Point    [2]int            `json:"point,omitempty"`
	Days     []time.Time       `json:"days,omitempty"`
	Rows     [][]int           `json:"rows,omitempty"`
	Internal string            `json:"internal" jsonschema:"-"`
	Hidden   string            `json:"-"`
}

const goodOrder = `{"name":"Ann","size":"s","home":{"street":"Main","zip":"12345"}`

// formOf returns the form for a type that has no mistakes.
func formOf[T any](tb testing.TB) *form.Form {
	tb.Helper()
	f, err := form.Of(reflect.TypeFor[T]())
	require.NoError(tb, err)
	return f
}

func TestOf_Login_HasASchema(t *testing.T) {
	t.Parallel()
	require.JSONEq(t, `{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
		"properties": {
			"email": {"type": "string", "title": "E-mail address", "format": "email", "minLength": 1},
			"password": {"type": "string", "title": "Password", "description": "At least eight characters.",
				"minLength": 8, "writeOnly": true},
			"keep": {"type": "boolean", "title": "Keep"}
		},
		"required": ["email", "password", "keep"]
	}`, string(formOf[login](t).Schema()))
}

func TestOf_EachKind_HasASchema(t *testing.T) {
	t.Parallel()
	var got struct {
		Properties map[string]json.RawMessage
		Required   []string
	}
	text := formOf[order](t).Schema()
	require.NoError(t, json.Unmarshal(text, &got))
	for name, want := range map[string]string{
		"createdBy": `{"type":"string","title":"Created by"}`,
		"size":      `{"type":"string","title":"Size","enum":["s","m"],"minLength":1}`,
		"toppings": `{"type":"array","title":"Toppings","items":{"type":"string","enum":["cheese","ham"],
			"minLength":1},"uniqueItems":true}`,
		"tags":   `{"type":"array","title":"Tags","items":{"type":"string","minLength":2},"maxItems":3}`,
		"number": `{"type":"integer","title":"Number","minimum":-9223372036854775808,"maximum":9223372036854775807}`,
		"small":  `{"type":"integer","title":"Small","minimum":-128,"maximum":10,"default":3}`,
		"ratio":  `{"type":"number","title":"Ratio","multipleOf":0.5}`,
		"exact":  `{"type":"number","title":"Exact"}`,
		"agree":  `{"type":"boolean","title":"Agree"}`,
		"home": `{"type":"object","title":"Home","required":["street","zip"],"properties":{
			"street":{"type":"string","title":"Street","minLength":1},
			"zip":{"type":"string","title":"Zip","pattern":"^[0-9]{4,5}$","minLength":1}}}`,
		"extra": `{"type":"object","title":"Extra","additionalProperties":{"type":"string","minLength":1}}`,
		"born":  `{"type":"string","title":"Born","format":"date"}`,
		"at":    `{"type":"string","title":"At","format":"date-time"}`,
		"addr":  `{"type":"string","title":"Addr"}`,
		"photo": `{"type":"string","title":"Photo","contentEncoding":"base64"}`,
		"point": `{"type":"array","title":"Point","minItems":2,"maxItems":2,"items":
			{"type":"integer","minimum":-9223372036854775808,"maximum":9223372036854775807}}`,
		"days": `{"type":"array","title":"Days","items":{"type":"string","format":"date-time","minLength":1}}`,
	} {
		require.JSONEq(t, want, string(got.Properties[name]), name)
	}
	require.Equal(t, []string{"name", "size", "home"}, got.Required)
	require.NotContains(t, string(text), "$ref")
	require.NotContains(t, string(text), "nternal")
}

func TestSchema_Fields_AreInTheOrderOfTheStruct(t *testing.T) {
	t.Parallel()
	text := string(formOf[order](t).Schema())
	last := 0
	for _, name := range []string{"createdBy", "name", "size", "toppings", "number", "home", "street", "work", "rows"} {
		at := strings.Index(text, `"`+name+`":{`)
		require.Greater(t, at, last, name)
		last = at
	}
}

type (
	selfMade     struct{ A string }
	recursive    struct{ Kids []recursive }
	recursiveMap map[string]recursiveMap
	endless      *endless
	hiddenPtr    struct{ A string }
	big1         struct{ A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P string }
	big2         struct{ A, B, C, D, E, F, G, H, I, J big1 }
	big3         struct{ A, B, C, D, E, F, G, H, I, J big2 }
)

func (selfMade) UnmarshalText([]byte) error { return nil }

func TestOf_BadType_IsRefusedWithAllMistakes(t *testing.T) {
	t.Parallel()
	type nested struct {
		F func() `json:"f"`
	}
	type empty struct{ hidden int } //nolint:unused // no form sees it
	type bad struct {
		*hiddenPtr
		C chan int               `json:"c"`
		A any                    `json:"a"`
		S fmt.Stringer           `json:"s"`
		M map[int]string         `json:"m"`
		N map[netip.Addr]string  `json:"n"`
		R recursive              `json:"r"`
		L []nested               `json:"l"`
		E endless                `json:"e"`
		T recursiveMap           `json:"t"`
		Q int                    `json:"q,string"`
		D string                 `json:"d.d"`
		B *big.Int               `json:"b"`
		O empty                  `json:"o"`
		J json.RawMessage        `json:"j"`
		U url.URL                `json:"u"`
		X complex128             `json:"x"`
		V string                 `json:"v" jsonschema:"nonsense=1"`
		W map[string]map[int]int `json:"w"`
	}
	_, err := form.Of(reflect.TypeFor[bad]())
	require.Equal(t, cairnerr.CodeMalformed, cairnerr.CodeOf(err))
	for _, part := range []string{
		"embeds form_test.hiddenPtr", "field c is a chan", "field a is an interface", "field s is an interface",
		"field m is a map whose keys", "field n is a map whose keys", "field r.Kids.* is recursive", "field l.*.f is a func",
		"field e has too many pointers", "field t.* is recursive", "field q has the option string", "field d.d has a dot",
		"field b reads itself from JSON", "field o has a type without fields", "field j reads itself from JSON",
		"field u.User has a type without fields", "field x is a complex128", `field v has the keyword "nonsense"`,
		"field w.* is a map whose keys",
	} {
		require.ErrorContains(t, err, part)
	}
	for _, of := range []reflect.Type{
		nil, reflect.TypeFor[int](), reflect.TypeFor[*login](), reflect.TypeFor[time.Time](),
		reflect.TypeFor[selfMade](), reflect.TypeFor[big3](),
	} {
		_, err := form.Of(of)
		require.Equal(t, cairnerr.CodeMalformed, cairnerr.CodeOf(err), of)
	}
}

func TestOf_ManyGoroutines_MakeItOnce(t *testing.T) {
	t.Parallel()
	type once struct{ A string }
	forms := make([]*form.Form, 8)
	var group sync.WaitGroup
	for i := range forms {
		group.Go(func() { forms[i], _ = form.Of(reflect.TypeFor[once]()) })
	}
	group.Wait()
	for _, f := range forms {
		require.NotNil(t, f)
		require.Same(t, forms[0], f)
	}
}

// FuzzForm looks for input that makes a form panic, and for values that it accepts and Go cannot decode.
func FuzzForm(f *testing.F) {
	form, err := form.Of(reflect.TypeFor[order]())
	require.NoError(f, err)
	for _, seed := range []string{
		goodOrder + `}`, goodOrder + `,"number":1e3,"ratio":1.5,"at":"2026-01-02T03:04:05Z","photo":"eA=="}`,
		goodOrder + `,"lines":[{"article":"x","qty":1,"gift":true}],"rows":[[1,-0],[2.0]],"point":[1,2]}`,
		goodOrder + `,"addr":"::1","days":["2026-01-02T03:04:05Z"],"exact":1e-9,"extra":{"a":"b"}}`, `null`, `[1`,
	} {
		f.Add(seed, "name=Ann&size=s&home.street=Main&home.zip=1234&small=+07&lines.3.article=x&at=2026-01-02T15:04")
		f.Add(goodOrder+"}", seed)
	}
	f.Fuzz(func(t *testing.T, text, query string) {
		accepted := func(value json.RawMessage) {
			parsed, wrong := form.Check(value)
			if len(wrong) > 0 {
				require.Nil(t, parsed)
				return
			}
			require.NoError(t, json.Unmarshal(parsed, new(order)), string(parsed))
			again, wrong := form.Check(parsed)
			require.Empty(t, wrong, "what was accepted is accepted again")
			require.Equal(t, string(parsed), string(again))
		}
		accepted(json.RawMessage(text))
		values, _ := url.ParseQuery(query)
		value := form.FromValues(values)
		require.True(t, json.Valid(value), string(value))
		accepted(value)
	})
}
