package form_test

import (
	"encoding/json"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/form"
)

// formWith returns the form with one field, A, that has this type and these tags.
func formWith(t reflect.Type, tag string) (*form.Form, error) {
	return form.Of(reflect.StructOf([]reflect.StructField{{Name: "A", Type: t, Tag: reflect.StructTag(tag)}}))
}

func TestOf_BadTag_IsRefused(t *testing.T) {
	t.Parallel()
	var (
		text, whole, ratio = reflect.TypeFor[string](), reflect.TypeFor[int8](), reflect.TypeFor[float64]()
		flag, at           = reflect.TypeFor[bool](), reflect.TypeFor[time.Time]()
		list, group        = reflect.TypeFor[[]string](), reflect.TypeFor[street]()
	)
	for _, c := range []struct {
		of   reflect.Type
		tag  string
		want string
	}{
		{text, `jsonschema:"titel=Name"`, `the keyword "titel"`},
		{text, `jsonschema:"nullable"`, `the word "nullable"`},
		{text, `jsonschema:"type=integer"`, `the keyword "type"`},
		{text, `jsonschema:"oneof_ref=file:///etc/passwd"`, `the keyword "oneof_ref"`},
		{text, `jsonschema:"minimum=1"`, `the keyword "minimum"`},
		{text, `jsonschema:"minLength=-1"`, `"minLength=-1"`},
		{text, `jsonschema:"minLength=9,maxLength=8"`, "minLength above its maxLength"},
		{text, `jsonschema:"minLength=9,minLength=8"`, `"minLength" twice`},
		{text, `jsonschema:"pattern=("`, `"pattern=("`},
		{text, `jsonschema:"format=mail"`, `"format=mail"`},
		{text, `jsonschema:"format=email,default=x"`, "a default that breaks its own rules"},
		{text, `jsonschema:"default=x,required"`, "a default, although it is required"},
		{text, `jsonschema:"default=x" form:"password"`, "a default, although it is a password"},
		{text, `jsonschema:"enum=a,enum=a"`, `the choice "a" twice`},
		{text, `jsonschema:"enum=a" choices:"b=B"`, "both choices and an enum"},
		{text, `choices:"=None"`, `the choice ""`},
		{text, `choices:"a=A" form:"password"`, `the control "password"`},
		{text, `form:"radio"`, `the control "radio"`},
		{text, `form:"pasword"`, `the control "pasword"`},
		{text, `form:"email"`, `the control "email"`},
		{text, `autocomplete:"\"><script>"`, "autocomplete"},
		{text, `jsonschema_extras:"$ref=file:///x"`, "jsonschema_extras"},
		{whole, `jsonschema:"minimum=01"`, `"minimum=01"`},
		{whole, `jsonschema:"minimum=1e99999999"`, `"minimum=1e99999999"`},
		{whole, `jsonschema:"minimum=3,maximum=2"`, "minimum above its maximum"},
		{whole, `jsonschema:"multipleOf=0"`, `"multipleOf=0"`},
		{whole, `jsonschema:"default=1.5"`, "a default that its type does not take"},
		{whole, `jsonschema:"default=300"`, "a default that breaks its own rules"},
		{whole, `jsonschema:"enum=x"`, `the choice "x"`},
		{whole, `form:"password"`, `the control "password"`},
		{ratio, `jsonschema:"maximum=NaN"`, `"maximum=NaN"`},
		{ratio, `jsonschema:"example=x"`, `"example=x"`},
		{flag, `jsonschema:"default=maybe"`, "a default that its type does not take"},
		{flag, `choices:"maybe=Maybe"`, `the choice "maybe"`},
		{flag, `jsonschema:"enum=true"`, `the keyword "enum"`},
		{at, `jsonschema:"format=date"`, `"format=date"`},
		{at, `jsonschema:"default=today"`, "a default that its type does not take"},
		{list, `jsonschema:"uniqueItems=false"`, `"uniqueItems=false"`},
		{list, `jsonschema:"pattern=a=b"`, "an equals sign"},
		{list, `form:"password"`, `the control "password"`},
		{list, `jsonschema:"enum=a,default=b"`, "a default that breaks its own rules"},
		{group, `choices:"a=A"`, "choices, which do not go with its type"},
		{group, `form:"textarea"`, `the control "textarea"`},
		{group, `jsonschema:"default=x"`, `the keyword "default"`},
	} {
		_, err := formWith(c.of, c.tag)
		require.ErrorContains(t, err, "the field A has ", c.tag)
		require.ErrorContains(t, err, c.want, c.tag)
		require.Equal(t, cairnerr.CodeMalformed, cairnerr.CodeOf(err), c.tag)
	}
}

func TestOf_SeveralBadTags_NamesAll(t *testing.T) {
	t.Parallel()
	type bad struct {
		A string `jsonschema:"minimum=1,format=mail" form:"checkbox"`
		B []struct {
			C int `jsonschema:"minLength=1"`
		}
	}
	_, err := form.Of(reflect.TypeFor[bad]())
	for _, want := range []string{
		`A has the keyword "minimum"`, `A has "format=mail"`, `A has the control "checkbox"`, `B.*.C has`,
	} {
		require.ErrorContains(t, err, want)
	}
}

func TestOf_GoodTags_AreInTheSchema(t *testing.T) {
	t.Parallel()
	for i, c := range []struct {
		of        reflect.Type
		tag, want string
	}{
		{
			reflect.TypeFor[string](),
			`json:"é" jsonschema:"title=Yes\\, \"we\" <can>,required,example=x" jsonschema_extras:"x-a=b"`,
			`{"type":"string","title":"Yes, \"we\" <can>","examples":["x"],"minLength":1,"x-a":"b"}`,
		},
		{reflect.TypeFor[*string](), `json:"é" jsonschema:"required"`, `{"type":"string","title":"É","minLength":1}`},
		{
			reflect.TypeFor[uint16](), `json:"é" jsonschema:"enum=1,enum=2.0"`,
			`{"type":"integer","title":"É","enum":[1,2],"minimum":0,"maximum":65535}`,
		},
		{
			reflect.TypeFor[[]int8](), `json:"é" jsonschema:"default=1,default=2"`,
			`{"type":"array","title":"É","default":[1,2],"items":{"type":"integer","minimum":-128,"maximum":127}}`,
		},
		{
			reflect.TypeFor[bool](), `json:"é" jsonschema:"default=true"`,
			`{"type":"boolean","title":"É","default":true}`,
		},
		{
			reflect.TypeFor[float64](), `json:"é" jsonschema:"exclusiveMinimum=0,default=1e3"`,
			`{"type":"number","title":"É","exclusiveMinimum":0,"default":1e3}`,
		},
		{
			reflect.TypeFor[map[string]bool](), `json:"é"`,
			`{"type":"object","title":"É","minProperties":1,"additionalProperties":{"type":"boolean"}}`,
		},
		{
			reflect.TypeFor[[]byte](), `json:"é"`,
			`{"type":"string","title":"É","contentEncoding":"base64","minLength":1}`,
		},
	} {
		f, err := formWith(c.of, c.tag)
		require.NoError(t, err, strconv.Itoa(i))
		require.Contains(t, string(f.Schema()), `"properties":{"é":`)
		require.JSONEq(t, c.want, property(t, f, "é"), c.tag)
	}
}

// property returns the schema of a property.
func property(t *testing.T, f *form.Form, name string) string {
	t.Helper()
	var got struct{ Properties map[string]json.RawMessage }
	require.NoError(t, json.Unmarshal(f.Schema(), &got))
	return string(got.Properties[name])
}
