// Package form makes forms from Go struct types: what a person fills in, as JSON Schema, as fields of a page, and as a
// check of what comes back.
//
// It is a package of its own, and not part of schema, because the libraries that it stands on would else be linked into
// every program that uses cairn.
package form

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"sync"

	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/cairn-workflow/cairn/cairnerr"
)

// Form is what a person fills in. It is made from a struct type, and never changes.
//
// A field has the name that encoding/json gives it. It is required unless its json tag has omitempty or omitzero, it is
// a pointer, or it has a default. The word required in its jsonschema tag makes it required in any case. These tags say
// more:
//
//	jsonschema:"title=Your e-mail,format=email" // the label, and which values fit, in the syntax of invopop/jsonschema
//	jsonschema:"-"                              // the field is no part of the form
//	jsonschema_description:"We never show it."  // the help text
//	choices:"s=Small,m=Medium"                  // the only values that fit, with their labels
//	form:"password"                             // the control; a password is never shown again
//	autocomplete:"one-time-code"                // what a browser may fill in
//
// A comma that does not separate is written as \\, in a tag.
type Form struct {
	root   *part
	schema json.RawMessage
	rules  *validator.Schema
	fields []Field
}

// maxFields limits a form, lists and groups included. A type that nests others without recursion can still be huge.
const maxFields = 1000

// partKind says how a part is written in JSON, and what reads it.
type partKind uint8

const (
	groupPart   partKind = iota // a struct
	listPart                    // a slice or array
	mapPart                     // a map
	textPart                    // a string
	ownTextPart                 // a text that the type reads itself, see encoding.TextUnmarshaler
	bytesPart                   // a []byte, as base64
	timePart                    // a time.Time
	wholePart                   // an integer, signed or not
	numberPart                  // a float or a json.Number
	boolPart                    // a bool
)

// part is one place of a form: the form itself, a field, or the entries of a list or map.
type part struct {
	name     string // in JSON; "" for the form itself and for entries
	path     string // as mistakes in the type name it; entries are called "*"
	kind     partKind
	goType   reflect.Type // without pointers
	tags     tags
	required bool
	pointer  bool
	fields   []*part          // of a group, in the order of the struct
	byName   map[string]*part // the same
	item     *part            // of a list or map
	size     int              // of an array, else -1
	control  string
	choices  []Choice
	enum     []any // the values of the choices
	def      any   // the default; nil: none
	broken   bool  // its type has a mistake, so its tags are not looked at
}

// scalar reports whether one text can give the value of the part.
func (p *part) scalar() bool { return p.kind >= textPart }

// textual reports whether the value is a text in JSON.
func (p *part) textual() bool { return p.kind >= textPart && p.kind <= timePart }

// inner is the part that the keywords for single values are about: the entries of a list of such values, else p.
func (p *part) inner() *part {
	if p.kind == listPart && p.item.scalar() {
		return p.item
	}
	return p
}

var forms sync.Map // of reflect.Type to func() (*Form, error)

// Of returns the form for a struct type. It is made once for each type and may be used by several goroutines. The
// error names all mistakes in the type.
func Of(t reflect.Type) (*Form, error) {
	made, ok := forms.Load(t)
	if !ok {
		made, _ = forms.LoadOrStore(t, sync.OnceValues(func() (*Form, error) { return newForm(t) }))
	}
	return made.(func() (*Form, error))()
}

func newForm(t reflect.Type) (*Form, error) {
	if t == nil || t.Kind() != reflect.Struct {
		return nil, cairnerr.Errorf(cairnerr.CodeMalformed, "a form is made from a struct type, not from %v", t)
	}
	b := new(builder)
	f := &Form{root: &part{required: true, size: -1}}
	b.describe(f.root, t)
	if f.root.kind != groupPart {
		b.mistake(f.root, "reads itself from a text: no form can be made from it")
	}
	b.finish(f.root)
	if len(b.mistakes) == 0 {
		b.compile(f)
	}
	if len(b.mistakes) > 0 {
		mistakes := errors.Join(b.mistakes...)
		return nil, cairnerr.Errorf(cairnerr.CodeMalformed, "no form can be made from %v: %w", t, mistakes)
	}
	f.fields = f.root.appendFields(nil, "", "", false)
	return f, nil
}

// Schema returns the JSON Schema of the form, draft 2020-12, without references. Its properties are in the order of the
// struct. Properties that it does not name are allowed; [Form.Check] drops them.
func (f *Form) Schema() json.RawMessage { return slices.Clone(f.schema) }

// builder gathers the mistakes of a type.
type builder struct {
	mistakes []error
	open     []reflect.Type // the types that the one at hand is part of
	count    int
}

func (b *builder) mistake(p *part, format string, args ...any) {
	p.broken = true
	place := "the struct "
	if p.path != "" {
		place = "the field " + p.path + " "
	}
	b.mistakes = append(b.mistakes, cairnerr.Errorf(cairnerr.CodeMalformed, place+format, args...))
}
