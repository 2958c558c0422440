package payload_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/payload"
)

type (
	Base struct {
		Raw    raw
		Shared raw `json:"shared"`
		Hidden raw `json:"hidden"`
	}
	lower struct {
		Deep   raw `json:"deep"`
		Hidden raw `json:"other_name"`
	}
	Left   struct{ Both raw }
	Right  struct{ Both raw }
	Winner struct {
		Both raw `json:"Both"`
	}
)

type embedding struct {
	*Base
	lower
	Hidden   raw  `json:"hidden"`
	Ignored  raw  `json:"-"`
	Dash     raw  `cbor:"-,"`
	Cbor     raw  `json:"json_name" cbor:"cbor_name"`
	Optional raw  `json:",omitempty"`
	Named    Base `json:"named"`
}

// Of its fields called "hidden" and "Shared", those in Base would have another type.
type hiding struct {
	Base
	Hidden []int  `json:"hidden"`
	Shared []bool `json:"shared"`
	Raw    []string
}

type ambiguous struct {
	Left
	Right
	Raw raw
}

type dominant struct {
	Left
	Winner
}

type numbered struct {
	First  raw `cbor:"1,keyasint"`
	Minus  raw `cbor:"-2,keyasint"`
	Zeroed raw `cbor:"03,keyasint"`
	Text   raw `cbor:"1"`
}

type listed struct {
	_      struct{} `cbor:",toarray"`
	ID     int
	First  raw
	Second map[string]raw
	Base
}

type outer struct {
	List []listed
	Tree map[string]*outer
	Raw  []map[string]*[]raw
}

// The CBOR library decides what is the field of a key. Each json.RawMessage here comes back only if we agree with it.
func TestFields_OfAnyStruct_AreThoseOfTheLibrary(t *testing.T) {
	t.Parallel()
	one, list := raw(`{"one":1}`), []raw{raw("1"), raw(`[{"two":2}]`)}
	base := Base{Raw: raw("[1]"), Shared: raw("[2]"), Hidden: raw("[3]")}
	for name, v := range map[string]any{
		"embedding": embedding{
			Base: &Base{Raw: one, Shared: raw("2")}, lower: lower{raw("[7]"), raw("[8]")},
			Hidden: raw("[3]"), Dash: raw("[4]"), Cbor: raw("[5]"), Named: base,
		},
		"optional":  embedding{Optional: one},
		"hiding":    hiding{Hidden: []int{1}, Shared: []bool{true}, Raw: []string{"x"}},
		"ambiguous": ambiguous{Raw: one},
		"dominant":  dominant{Winner: Winner{one}},
		"numbered":  numbered{one, raw("[2]"), raw("[3]"), raw("[4]")},
		"listed":    listed{ID: 7, First: one, Second: map[string]raw{"k": raw("[2]")}, Base: base},
		"outer": outer{
			List: []listed{{First: one}, {Base: base}},
			Tree: map[string]*outer{"a": {Raw: []map[string]*[]raw{{"k": &list, "none": nil}}}, "b": nil},
		},
	} {
		p, err := payload.Encode(v)
		require.NoError(t, err, name)
		back := reflect.New(reflect.TypeOf(v))
		require.NoError(t, payload.Decode(p, back.Interface()), name)
		require.Equal(t, v, back.Elem().Interface(), name)
	}
}

func TestFields_KeyInAnotherCase_IsFound(t *testing.T) {
	t.Parallel()
	p, err := payload.Encode(map[string]any{"META": []int{1}, "metas": []int{2}, "nobody": []int{3}, "Id": "d"})
	require.NoError(t, err)
	var d document
	require.NoError(t, payload.Decode(p, &d))
	require.Equal(t, document{ID: "d", Meta: raw("[1]")}, d)
}
