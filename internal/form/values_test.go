package form_test

import (
	"encoding/json"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/form"
)

func TestFromValues_EachControl_IsConverted(t *testing.T) {
	t.Parallel()
	type sent struct {
		Text   string   `json:"text"`
		Mail   string   `json:"mail" jsonschema:"format=email"`
		Secret string   `json:"secret" form:"password"`
		Area   string   `json:"area" form:"textarea"`
		Opt    string   `json:"opt,omitempty"`
		Ptr    *string  `json:"ptr"`
		Whole  int      `json:"whole"`
		Ratio  *float64 `json:"ratio"`
		Yes    bool     `json:"yes"`
		Asked  *bool    `json:"asked" form:"radio"`
		Size   int      `json:"size,omitempty" jsonschema:"enum=1,enum=2"`
		Boxes  []string `json:"boxes,omitempty" jsonschema:"enum=a,enum=b"`
		Lines  []int    `json:"lines,omitempty"`
		At     string   `json:"at,omitempty" jsonschema:"format=date-time"`
	}
	f := formOf[sent](t)
	off := `"yes":false,"boxes":[]`
	for query, want := range map[string]string{
		"":                                      `{` + off + `}`,
		"text=":                                 `{` + off + `}`,
		"text=+a%0D%0Ab+&text=c":                `{"text":" a\r\nb ",` + off + `}`,
		"mail=+a@b+&secret=+x+":                 `{"mail":"a@b","secret":" x ",` + off + `}`,
		"area=a%0D%0Ab":                         `{"area":"a\nb",` + off + `}`,
		"opt=&ptr=&ratio=+":                     `{` + off + `}`,
		"opt=x&ptr=y":                           `{"opt":"x","ptr":"y",` + off + `}`,
		"whole=12345678901234567890&ratio=1.50": `{"whole":12345678901234567890,"ratio":1.50,` + off + `}`,
		"whole=%2B007&ratio=-0.5e-3":            `{"whole":7,"ratio":-0.5e-3,` + off + `}`,
		"whole=000&ratio=00.5":                  `{"whole":0,"ratio":0.5,` + off + `}`,
		"whole=1,5&ratio=NaN":                   `{"whole":"1,5","ratio":"NaN",` + off + `}`,
		"yes=on":                                `{"yes":true,"boxes":[]}`,
		"yes=false&yes=true":                    `{"yes":true,"boxes":[]}`,
		"yes=perhaps":                           `{"yes":"perhaps","boxes":[]}`,
		"asked=false":                           `{"yes":false,"asked":false,"boxes":[]}`,
		"size=2&boxes=a&boxes=&boxes=b":         `{"yes":false,"size":2,"boxes":["a","b"]}`,
		"lines=1%0D%0A%0D%0A+2+&lines=x":        `{` + off + `,"lines":[1,2,"x"]}`,
		"at=2026-01-02T15:04":                   `{` + off + `,"at":"2026-01-02T15:04:00Z"}`,
		"text=%ff":                              `{"text":"\ufffd",` + off + `}`,
		"unknown=1&text.more=2&.=3&..=4":        `{` + off + `}`,
	} {
		values, err := url.ParseQuery(query)
		require.NoError(t, err)
		require.Equal(t, want, string(f.FromValues(values)), query)
	}
}

func TestFromValues_NestedParts_HaveDottedNames(t *testing.T) {
	t.Parallel()
	f := formOf[order](t)
	none := `"toppings":[],"home":{}`
	for query, want := range map[string]string{
		"home.street=Main&home.zip=1": `{"toppings":[],"home":{"street":"Main","zip":"1"}}`,
		"work.street=&work.zip=":      `{` + none + `}`,
		"work.street=x&work.zip=":     `{` + none + `,"work":{"street":"x"}}`,
		// Rows keep their order, gaps close, and rows that nobody filled in are dropped.
		"lines.10.article=b&lines.10.gift=on&lines.2.article=a&lines.3.article=&lines.4.qty=1": `{` + none +
			`,"lines":[{"article":"a","gift":false},{"article":"b","gift":true}]}`,
		"lines.x.article=a&lines.-1.article=b&lines.01.article=c&lines.1.article=d": `{` + none +
			`,"lines":[{"article":"d","gift":false}]}`,
		"extra.b.c=2&extra.a=1&extra.c=": `{` + none + `,"extra":{"a":"1","b.c":"2"}}`,
		"at=2026-01-02T15:04:05.5":       `{` + none + `,"at":"2026-01-02T15:04:05.5Z"}`,
		"at=2026-01-02T15:04:05%2B01:00": `{` + none + `,"at":"2026-01-02T15:04:05+01:00"}`,
		"at=soon":                        `{` + none + `,"at":"soon"}`,
		"rows.1=1&rows.0=2%0A3":          `{` + none + `,"rows":[[2,3],[1]]}`,
		"point=1%0A2&days=2026-01-02T15:04": `{` + none +
			`,"point":[1,2],"days":["2026-01-02T15:04:00Z"]}`,
		strings.Repeat("a.", 1e5) + "a=1": `{` + none + `}`,
	} {
		values, err := url.ParseQuery(query)
		require.NoError(t, err)
		require.Equal(t, want, string(f.FromValues(values)), "%.60s", query)
	}
}

func TestFromValues_ThenCheck_GivesTheStruct(t *testing.T) {
	t.Parallel()
	f := formOf[login](t)
	parsed, wrong := f.Check(f.FromValues(url.Values{"email": {"ann@example.com"}, "password": {"12345678"}}))
	require.Empty(t, wrong)
	var got login
	require.NoError(t, json.Unmarshal(parsed, &got))
	require.Equal(t, login{"ann@example.com", "12345678", false}, got)

	_, wrong = f.Check(f.FromValues(nil))
	require.Equal(t, form.Fields{"email": "is required", "password": "is required"}, wrong)

	value := formOf[order](t).FromValues(url.Values{"small": {"x"}, "name": {"Ann"}, "size": {"s"}})
	_, wrong = formOf[order](t).Check(value)
	want := form.Fields{"small": "must be a whole number", "home.street": "is required", "home.zip": "is required"}
	require.Equal(t, want, wrong)
}

func TestFromValues_Defaults_StandForEmptyTexts(t *testing.T) {
	t.Parallel()
	type group struct {
		Land string `jsonschema:"default=de"`
		Town string
	}
	type sent struct {
		Text  string   `jsonschema:"default=x"`
		On    bool     `jsonschema:"default=true"`
		Boxes []string `jsonschema:"enum=a,enum=b,default=a"`
		Lines []string `jsonschema:"default=a"`
		Group *group
	}
	f := formOf[sent](t)
	parsed, wrong := f.Check(json.RawMessage(`{}`))
	require.Empty(t, wrong)
	require.JSONEq(t, `{"Text":"x","On":true,"Boxes":["a"],"Lines":["a"]}`, string(parsed))
	// A checkbox that is off is an answer. A group in which only the default stands is not filled in.
	parsed, wrong = f.Check(f.FromValues(url.Values{"Text": {""}, "Lines": {""}, "Group.Land": {"de"}}))
	require.Empty(t, wrong)
	require.JSONEq(t, `{"Text":"x","On":false,"Boxes":[],"Lines":["a"]}`, string(parsed))
	_, wrong = f.Check(f.FromValues(url.Values{"Group.Land": {"at"}}))
	require.Equal(t, form.Fields{"Group.Town": "is required"}, wrong)
}

func TestFromValues_OptionalGroup_CheckboxAnswersIt(t *testing.T) {
	t.Parallel()
	type group struct{ On bool }
	type sent struct {
		Group *group
		Map   map[string]bool `json:",omitempty"`
	}
	f, err := form.Of(reflect.TypeFor[sent]())
	require.NoError(t, err)
	require.JSONEq(t, `{}`, string(f.FromValues(url.Values{"Group.On": {"off"}})))
	value := f.FromValues(url.Values{"Group.On": {"on"}, "Map.a": {"on"}})
	require.JSONEq(t, `{"Group":{"On":true},"Map":{"a":true}}`, string(value))
}
