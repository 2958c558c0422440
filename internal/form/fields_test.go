package form_test

import (
	"reflect"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/form"
)

func TestFields_Login_HasEachInOrder(t *testing.T) {
	t.Parallel()
	require.Equal(t, []form.Field{
		{Path: "email", Label: "E-mail address", Control: "email", Required: true, Autocomplete: "email"},
		{
			Path: "password", Label: "Password", Help: "At least eight characters.", Control: "password", Required: true,
			Sensitive: true, MinLength: 8,
		},
		{Path: "keep", Label: "Keep", Control: "checkbox"},
	}, formOf[login](t).Fields())
}

func TestFields_EachKind_HasItsControl(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		of   reflect.Type
		tag  string
		want form.Field
	}{
		{reflect.TypeFor[string](), `form:"hidden"`, form.Field{Control: "hidden", Required: true}},
		{
			reflect.TypeFor[string](), `form:"textarea" jsonschema:"maxLength=9,pattern=^x$"`,
			form.Field{Control: "textarea", Required: true, MaxLength: 9, Pattern: "^x$"},
		},
		{
			reflect.TypeFor[string](), `jsonschema:"format=uri"`,
			form.Field{Control: "url", Required: true, Autocomplete: "url"},
		},
		{
			reflect.TypeFor[string](), `jsonschema:"format=date,default=2026-01-02"`,
			form.Field{Control: "date", Default: []string{"2026-01-02"}},
		},
		{
			reflect.TypeFor[string](), `autocomplete:"one-time-code" form:"text"`,
			form.Field{Control: "text", Required: true, Autocomplete: "one-time-code"},
		},
		{
			reflect.TypeFor[time.Time](), `jsonschema:"default=2026-01-02T15:04:05+01:00"`,
			form.Field{Control: "datetime-local", Default: []string{"2026-01-02T14:04:05"}},
		},
		{
			reflect.TypeFor[time.Time](), `jsonschema:"default=2026-01-02T15:04"`,
			form.Field{Control: "datetime-local", Default: []string{"2026-01-02T15:04"}},
		},
		{
			reflect.TypeFor[int](), `jsonschema:"minimum=1,default=7"`,
			form.Field{Control: "number", Min: "1", Step: "1", Default: []string{"7"}},
		},
		{
			reflect.TypeFor[uint8](), `form:"text"`,
			form.Field{Control: "text", Required: true, Min: "0", Max: "255", Step: "1"},
		},
		{reflect.TypeFor[uint](), ``, form.Field{Control: "number", Required: true, Min: "0", Step: "1"}},
		{reflect.TypeFor[float64](), ``, form.Field{Control: "number", Required: true, Step: "any"}},
		{
			reflect.TypeFor[float32](), `jsonschema:"multipleOf=0.25,maximum=2"`,
			form.Field{Control: "number", Required: true, Max: "2", Step: "0.25"},
		},
		{
			reflect.TypeFor[bool](), `jsonschema:"default=true"`,
			form.Field{Control: "checkbox", Default: []string{"true"}},
		},
		{
			reflect.TypeFor[bool](), `form:"radio"`,
			form.Field{Control: "radio", Required: true, Choices: []form.Choice{{"true", "Yes"}, {"false", "No"}}},
		},
		{
			reflect.TypeFor[bool](), `choices:"on=I agree,off=Never"`,
			form.Field{Control: "select", Required: true, Choices: []form.Choice{{"true", "I agree"}, {"false", "Never"}}},
		},
		{
			reflect.TypeFor[string](), `choices:"s=Small,m"`,
			form.Field{Control: "select", Required: true, Choices: []form.Choice{{"s", "Small"}, {"m", "m"}}},
		},
		{
			reflect.TypeFor[*int](), `jsonschema:"enum=1.0,enum=2" form:"radio"`,
			form.Field{Control: "radio", Step: "1", Choices: []form.Choice{{"1", "1.0"}, {"2", "2"}}},
		},
		{
			reflect.TypeFor[[]string](), `jsonschema:"enum=a,default=a"`,
			form.Field{Control: "checkboxes", Multiple: true, Choices: []form.Choice{{"a", "a"}}, Default: []string{"a"}},
		},
		{
			reflect.TypeFor[[]string](), `choices:"a=A" form:"select"`,
			form.Field{Control: "select", Required: true, Multiple: true, Choices: []form.Choice{{"a", "A"}}},
		},
		{
			reflect.TypeFor[[]int](), `jsonschema:"minimum=3"`,
			form.Field{Control: "textarea", Required: true, Multiple: true},
		},
		{
			reflect.TypeFor[[]byte](), `jsonschema_description:"Base64."`,
			form.Field{Control: "textarea", Required: true, Help: "Base64."},
		},
		{
			reflect.TypeFor[map[string]int](), ``,
			form.Field{Control: "map", Required: true, Items: []form.Field{{Control: "number", Required: true, Step: "1"}}},
		},
		{
			reflect.TypeFor[[][]string](), ``,
			form.Field{
				Control: "list", Required: true,
				Items: []form.Field{{Control: "textarea", Required: true, Multiple: true}},
			},
		},
	} {
		f, err := formWith(c.of, c.tag)
		require.NoError(t, err, c.tag)
		c.want.Path, c.want.Label = "A", "A"
		require.Equal(t, []form.Field{c.want}, f.Fields(), "%v %s", c.of, c.tag)
	}
}

func TestFields_NestedStructs_AreFlattened(t *testing.T) {
	t.Parallel()
	type person struct {
		Name string
		Home street `json:"home" jsonschema:"title=Home address"`
	}
	type sent struct {
		Boss    person   `json:"boss"`
		Deputy  *person  `json:"deputy"`
		Members []person `json:"members"`
	}
	var got [][3]string
	fields := formOf[sent](t).Fields()
	for _, field := range fields {
		required := ""
		if field.Required {
			required = "required"
		}
		got = append(got, [3]string{field.Path, field.Group, required})
	}
	require.Equal(t, [][3]string{
		{"boss.Name", "Boss", "required"},
		{"boss.home.street", "Boss / Home address", "required"},
		{"boss.home.zip", "Boss / Home address", "required"},
		{"deputy.Name", "Deputy", ""},
		{"deputy.home.street", "Deputy / Home address", ""},
		{"deputy.home.zip", "Deputy / Home address", ""},
		{"members", "", "required"},
	}, got)
	items := fields[6].Items
	require.Len(t, items, 3)
	require.Equal(t, "home.street", items[1].Path)
	require.True(t, items[1].Required)
}

func TestFields_Labels_AreNamesInWords(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"firstName": "First name", "first_name": "First name", "FirstName": "First name", "userID": "User ID", "URL": "URL",
		"HTTPServer": "HTTP server", "a": "A", "x-y z": "X y z", "line2": "Line2", "ünder": "Ünder", "__": "__", "ID": "ID",
	} {
		f, err := formWith(reflect.TypeFor[string](), `json:"`+name+`"`)
		require.NoError(t, err)
		require.Equal(t, want, f.Fields()[0].Label, name)
	}
}

// TestFields_Patterns_MatchTheWholeValue: HTML anchors a pattern, JSON Schema does not.
func TestFields_Patterns_MatchTheWholeValue(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"^[a-c]+$", "b", "^a", "c$", "^a|c$", `^a\$`, ""} {
		f, err := formWith(reflect.TypeFor[string](), "jsonschema:"+strconv.Quote("pattern="+pattern))
		require.NoError(t, err)
		whole := regexp.MustCompile("^(?:" + f.Fields()[0].Pattern + ")$")
		for _, value := range []string{"abc", "b", "xbx", "ax", "xc", "x", "a$", "xa$"} {
			if pattern != "" {
				require.Equal(t, regexp.MustCompile(pattern).MatchString(value), whole.MatchString(value), "%s %s", pattern, value)
			}
		}
	}
}
