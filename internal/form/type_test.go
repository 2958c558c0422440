package form_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/form"
)

type (
	level2 struct {
		Deep   string
		Same   string
		Tagged string `json:"tagged"`
	}
	level1 struct {
		level2
		Same  string
		Clash string
		Tie   string
	}
	other struct {
		Untie int `json:"Tie"`
		Clash string

		Tagged string
	}
	text     string //nolint:unused // it is embedded, and must not be a field
	exported struct{ Inner string }
	Pointed  struct{ Far string }
	Text     string
	Named    struct{ In string }
	loop     struct {
		*Loop
		Once string
	}
	Loop struct {
		loop
		Again string
	}
)

// tangled has fields that hide each other in each way that encoding/json knows.
type tangled struct {
	level1
	other
	exported
	*Pointed
	Loop
	text //nolint:unused // no field
	Text
	Named  `json:"named"`
	Plain  string
	Minus  string             `json:"-,"`   //nolint:staticcheck // it is the name "-"
	Odd    string             `json:"a\\b"` //nolint:staticcheck // the name is ignored
	Words  string             `json:"two words"`
	Sign   string             `json:"<&>/~%41"`
	Left   string             `json:"-"`
	hidden string             //nolint:unused // no field
	Tagged string             `json:"Deep,omitempty"`
	Inline struct{ X string } `json:",inline"`
}

func TestOf_EmbeddedStructs_HaveTheFieldsOfEncodingJSON(t *testing.T) {
	t.Parallel()
	var value tangled
	value.Pointed, value.Tagged = &Pointed{}, "x"
	text, err := json.Marshal(value)
	require.NoError(t, err)
	var want map[string]any
	require.NoError(t, json.Unmarshal(text, &want))

	var got struct{ Properties map[string]any }
	require.NoError(t, json.Unmarshal(formOf[tangled](t).Schema(), &got))
	require.Equal(t, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got.Properties)))

	// Each of the names fills in the same field.
	object := map[string]any{}
	for name := range want {
		object[name] = "text"
	}
	object["named"], object["Inline"] = map[string]any{"In": "text"}, map[string]any{"X": "text"}
	object["Tie"] = 1
	text, err = json.Marshal(object)
	require.NoError(t, err)
	parsed, wrong := formOf[tangled](t).Check(text)
	require.Empty(t, wrong)
	require.JSONEq(t, string(text), string(parsed))
	var back tangled
	require.NoError(t, json.Unmarshal(parsed, &back))
	text, err = json.Marshal(back)
	require.NoError(t, err)
	require.JSONEq(t, string(parsed), string(text))
}

func TestOf_UnexportedEmbeddedWithName_IsRefused(t *testing.T) {
	t.Parallel()
	type bad struct {
		exported `json:"named"`
	}
	_, err := form.Of(reflect.TypeFor[bad]())
	require.ErrorContains(t, err, "with a name or as a pointer")
}

func TestOf_JSONTags_SayWhatIsRequired(t *testing.T) {
	t.Parallel()
	type sent struct {
		A string
		B string `json:",omitempty"`
		C int    `json:"c,omitzero"`
		D *int
		E int     `jsonschema:"default=1"`
		F *string `jsonschema:"required"`
		G []string
		H struct{ X string }
		I bool
		J **bool
		K string `json:",omitempty" jsonschema:"required"`
	}
	var got struct{ Required []string }
	require.NoError(t, json.Unmarshal(formOf[sent](t).Schema(), &got))
	require.Equal(t, []string{"A", "F", "G", "H", "I", "K"}, got.Required)
}
