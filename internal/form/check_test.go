package form_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/form"
)

const goodLogin = `{"email":"ann@example.com","password":"12345678","keep":false}`

func TestCheck_GoodForm_IsParsed(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		``: `{"name":"Ann","size":"s","small":3,HOME}`,
		// Numbers keep their digits. Integers are written as Go reads them.
		`,"number":9007199254740993,"exact":1.000000000000000000001`: `{"name":"Ann","size":"s",` +
			`"number":9007199254740993,"small":3,"exact":1.000000000000000000001,HOME}`,
		`,"small":1e1,"point":[-0,2.0]`: `{"name":"Ann","size":"s","small":10,HOME,"point":[0,2]}`,
		// Null is a missing value, and unknown properties are dropped. Names count with their case.
		`,"at":null,"small":null,"NAME":1,"x":{"a":[1]}`: `{"name":"Ann","size":"s","small":3,HOME}`,
		// There are defaults inside of a list, too. False is an answer.
		`,"agree":false`: `{"name":"Ann","size":"s","small":3,"agree":false,HOME}`,
		`,"lines":[{"gift":false,"article":"x"}]`: `{"name":"Ann","size":"s","small":3,HOME,` +
			`"lines":[{"article":"x","qty":1,"gift":false}]}`,
		`,"lines":[],"extra":{}`: `{"name":"Ann","size":"s","small":3,HOME,"lines":[],"extra":{}}`,
		`,"born":"2026-02-28","extra":{"b":"<","a":"1"}`: `{"name":"Ann","size":"s","small":3,HOME,` +
			`"extra":{"a":"1","b":"\u003c"},"born":"2026-02-28"}`,
	} {
		value = goodOrder + value + "}"
		want = strings.ReplaceAll(want, "HOME", `"home":{"street":"Main","zip":"12345"}`)
		parsed, wrong := formOf[order](t).Check(json.RawMessage(value))
		require.Empty(t, wrong, value)
		require.Equal(t, want, string(parsed))
		require.NoError(t, json.Unmarshal(parsed, new(order)))
	}
}

func TestCheck_EachProblem_HasAMessage(t *testing.T) {
	t.Parallel()
	for member, want := range map[string]form.Fields{
		`"name":""`:                          {"name": "is required"},
		`"name":null`:                        {"name": "is required"},
		`"name":1`:                           {"name": "must be text"},
		`"name":"` + longText + `"`:          {"name": "must have at most 20 characters"},
		`"size":"xl"`:                        {"size": "must be one of: s, m"},
		`"toppings":["tofu"]`:                {"toppings.0": "must be one of: cheese, ham"},
		`"toppings":["ham","ham"]`:           {"toppings": "must not have the same entry twice"},
		`"toppings":[1,2]`:                   {"toppings.0": "must be text", "toppings.1": "must be text"},
		`"toppings":"ham"`:                   {"toppings": "must be a list"},
		`"tags":["aa","bb","cc","dd"]`:       {"tags": "must have at most 3 entries"},
		`"tags":["a"]`:                       {"tags.0": "must have at least 2 characters"},
		`"tags":["",null]`:                   {"tags.0": "is required", "tags.1": "is required"},
		`"number":"1"`:                       {"number": "must be a whole number"},
		`"number":1.5`:                       {"number": "must be a whole number"},
		`"number":9223372036854775808`:       {"number": "must be at most 9223372036854775807"},
		`"number":-1e300`:                    {"number": "must be at least -9223372036854775808"},
		`"number":1e999999999`:               {"number": "is too long for a number"},
		`"small":300`:                        {"small": "must be at most 10"},
		`"small":-129`:                       {"small": "must be at least -128"},
		`"ratio":0.3`:                        {"ratio": "must be a multiple of 0.5"},
		`"ratio":1e39`:                       {"ratio": "is too large"},
		`"ratio":1e-999999999`:               {"ratio": "is too long for a number"},
		`"ratio":true`:                       {"ratio": "must be a number"},
		`"agree":"yes"`:                      {"agree": "must be true or false"},
		`"home":null`:                        {"home.street": "is required", "home.zip": "is required"},
		`"home":[]`:                          {"home": "must be an object"},
		`"home":{"street":"x","zip":"1"}`:    {"home.zip": "does not have the right form"},
		`"work":{}`:                          {"work.street": "is required", "work.zip": "is required"},
		`"lines":[{"gift":true,"qty":0}]`:    {"lines.0.article": "is required", "lines.0.qty": "must be at least 1"},
		`"lines":[null,{"gift":true}]`:       {"lines.0": "is required", "lines.1.article": "is required"},
		`"extra":{"a":1,"":""}`:              {"extra.a": "must be text", "extra.": "is required"},
		`"extra":[]`:                         {"extra": "must be an object"},
		`"born":"2026-02-30"`:                {"born": "is not a valid date"},
		`"at":"2026-02-03"`:                  {"at": "is not a valid date and time"},
		`"at":"\u0022"`:                      {"at": "is not a valid date and time"},
		`"at":1`:                             {"at": "is not a valid date and time"},
		`"addr":"1.2.3.400"`:                 {"addr": "is not valid"},
		`"photo":"?"`:                        {"photo": "is not valid"},
		`"point":[1]`:                        {"point": "must have at least 2 entries"},
		`"point":[1,2,3]`:                    {"point": "must have at most 2 entries"},
		`"days":["2026-01-02T03:04:05Z",""]`: {"days.1": "is required"},
		`"rows":[[1],["x"]]`:                 {"rows.1.0": "must be a whole number"},
	} {
		// The member stands first, and hides the good one: an object with a name twice would be refused.
		var object map[string]json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(goodOrder+"}"), &object))
		require.NoError(t, json.Unmarshal([]byte("{"+member+"}"), &object))
		value, err := json.Marshal(object)
		require.NoError(t, err)
		parsed, wrong := formOf[order](t).Check(value)
		require.Equal(t, want, wrong, member)
		require.Nil(t, parsed)
	}
}

var (
	longText = strings.Repeat("x", 21)
	longMail = strings.Repeat("x", 251) + "@a.b"
)

func TestCheck_EachKeyword_HasAMessage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		of                reflect.Type
		tag, value, wants string
	}{
		{reflect.TypeFor[int](), `exclusiveMinimum=1`, `1`, "must be more than 1"},
		{reflect.TypeFor[float64](), `exclusiveMaximum=1.25`, `2`, "must be less than 1.25"},
		{reflect.TypeFor[uint](), ``, `-1`, "must be at least 0"},
		{reflect.TypeFor[int8](), ``, `300`, "must be at most 127"},
		{reflect.TypeFor[uint64](), ``, `18446744073709551616`, "must be at most 18446744073709551615"},
		{reflect.TypeFor[float64](), ``, `1e309`, "is too large"},
		{reflect.TypeFor[string](), `minLength=8`, `"é"`, "must have at least 8 characters"},
		{reflect.TypeFor[string](), `maxLength=1`, `"éé"`, "must have at most 1 character"},
		{
			reflect.TypeFor[string](), `minLength=8,pattern=[0-9]`, `"abc"`,
			"must have at least 8 characters; does not have the right form",
		},
		{reflect.TypeFor[[]string](), `minItems=2`, `["a"]`, "must have at least 2 entries"},
		{reflect.TypeFor[[]string](), `minItems=2`, `[]`, "is required"},
		{reflect.TypeFor[map[string]string](), ``, `{}`, "is required"},
		{reflect.TypeFor[[]byte](), ``, `""`, "is required"},
		{reflect.TypeFor[string](), `format=email`, `"ann"`, "is not a valid e-mail address"},
		{reflect.TypeFor[string](), `format=email`, `"@example.com"`, "is not a valid e-mail address"},
		{reflect.TypeFor[string](), `format=email`, `"` + longMail + `"`, "is not a valid e-mail address"},
		{reflect.TypeFor[string](), `format=uri`, `"example"`, "is not a valid web address"},
		{reflect.TypeFor[string](), `format=uuid`, `"x"`, "is not a valid UUID"},
		{reflect.TypeFor[string](), `format=ipv6`, `"x"`, "is not a valid IP address"},
		{reflect.TypeFor[string](), `format=date-time`, `"x"`, "is not a valid date and time"},
	} {
		f, err := formWith(c.of, fmt.Sprintf(`jsonschema:"%s"`, c.tag))
		require.NoError(t, err)
		_, wrong := f.Check(json.RawMessage(`{"A":` + c.value + `}`))
		require.Equal(t, form.Fields{"A": c.wants}, wrong, c.tag)
	}
}

func TestCheck_ManyChoices_AreNotAllNamed(t *testing.T) {
	t.Parallel()
	f, err := formWith(reflect.TypeFor[string](), `choices:"`+strings.Repeat("a", 30)+`=A`+manyChoices()+`"`)
	require.NoError(t, err)
	_, wrong := f.Check(json.RawMessage(`{"A":"x"}`))
	require.Equal(t, form.Fields{"A": "must be one of the choices"}, wrong)
}

func manyChoices() (choices string) {
	for i := range 20 {
		choices += fmt.Sprintf(",%d=Number %d", i, i)
	}
	return choices
}

func TestCheck_NoObject_IsAProblemOfTheForm(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 100) + strings.Repeat("]", 100)
	for value, want := range map[string]string{
		``: "is not valid JSON", `{`: "is not valid JSON", `{} {}`: "is not valid JSON", `{}x`: "is not valid JSON",
		`{"a":1,}`: "is not valid JSON", "{\"email\":\"\xff\"}": "is not valid JSON",
		strings.Repeat("[", 1e6): "is not valid JSON",
		`null`:                   "must be an object", `[]`: "must be an object",
		`"x"`: "must be an object", `1`: "must be an object",
		`{"x":` + deep + `}`:             "is nested too deeply",
		`{"keep":true,"keep":false}`:     "has a name twice",
		`{"x":[{"a":1,"\u0061":false}]}`: "has a name twice",
	} {
		parsed, wrong := formOf[login](t).Check(json.RawMessage(value))
		require.Equal(t, form.Fields{"": want}, wrong, "%.50s", value)
		require.Nil(t, parsed)
	}
}

func TestCheck_SensitiveValue_IsInNoMessage(t *testing.T) {
	t.Parallel()
	for _, value := range []string{`"canary"`, `["canary"]`, `{"canary":1}`, `123`} {
		_, wrong := formOf[login](t).Check(json.RawMessage(`{"email":"canary","password":` + value + `}`))
		require.Len(t, wrong, 3)
		require.NotContains(t, fmt.Sprint(wrong), "canary")
	}
}

func BenchmarkFormCheck(b *testing.B) {
	f := formOf[login](b)
	b.ReportAllocs()
	for b.Loop() {
		if _, wrong := f.Check(json.RawMessage(goodLogin)); len(wrong) > 0 {
			b.Fatal(wrong)
		}
	}
}
