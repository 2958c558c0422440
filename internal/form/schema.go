package form

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	generator "github.com/invopop/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"
)

// finish reads what the tags of all parts say about their values.
func (b *builder) finish(p *part) {
	for _, field := range p.fields {
		b.finish(field)
	}
	if p.item != nil {
		b.finish(p.item)
	}
	if p.broken || p.item != nil && p.item.broken {
		return
	}
	b.checkKeywords(p)
	b.readChoices(p)
	b.chooseControl(p)
	b.readDefault(p)
}

func (b *builder) readChoices(p *part) {
	choices := p.tags.choices
	if enum := p.tags.all("enum"); len(enum) > 0 {
		if len(choices) > 0 {
			b.mistake(p, "has both choices and an enum")
		}
		choices = nil
		for _, value := range enum {
			choices = append(choices, Choice{value, value})
		}
	}
	if kind := p.inner().kind; len(choices) > 0 && (!p.inner().scalar() || kind == timePart || kind == bytesPart) {
		b.mistake(p, "has choices, which do not go with its type")
		return
	}
	for _, choice := range choices {
		found := newFindings()
		value := p.inner().clean("", p.inner().convert(choice.Value), found)
		switch {
		case len(found.wrong) > 0 || choice.Value == "":
			b.mistake(p, "has the choice %q, which its type does not take", choice.Value)
		case slices.Contains(p.enum, value):
			b.mistake(p, "has the choice %q twice", choice.Value)
		}
		p.enum = append(p.enum, value)
		p.choices = append(p.choices, Choice{fmt.Sprint(value), choice.Label})
	}
}

func (b *builder) readDefault(p *part) {
	texts := p.tags.all("default")
	if len(texts) == 0 || !p.inner().scalar() {
		return
	}
	switch {
	case p.sensitive():
		b.mistake(p, "has a default, although it is a password")
	case p.tags.required:
		b.mistake(p, "has a default, although it is required")
	}
	var value any
	if p.kind == listPart {
		entries := make([]any, len(texts))
		for i, text := range texts {
			entries[i] = p.item.convert(text)
		}
		value = entries
	} else {
		value = p.convert(texts[0])
	}
	found := newFindings()
	p.def = p.clean("", value, found)
	if len(found.wrong) > 0 {
		b.mistake(p, "has a default that its type does not take")
	}
}

// compile makes the schema of the form, and the rules that check values against it.
func (b *builder) compile(f *Form) {
	// The library sees a copy of the type that has nothing but exported fields and tags: no methods, which could
	// describe something else, and no embedding, whose rules it does not follow in all cases.
	reflector := generator.Reflector{
		Anonymous: true, DoNotReference: true, ExpandedStruct: true, AllowAdditionalProperties: true,
	}
	description := reflector.ReflectFromType(f.root.mirror())
	f.root.amend(description)
	text, err := json.Marshal(description)
	if err != nil {
		b.mistake(f.root, "has no JSON Schema: %w", err)
		return
	}
	f.schema = text
	compiler, err := newCompiler(text)
	if err == nil {
		f.rules, err = compiler.Compile(schemaURL)
	}
	if err != nil {
		b.mistake(f.root, "has no valid JSON Schema: %w", err)
		return
	}
	b.checkDefaults(f.root, compiler, schemaURL+"#")
}

// checkDefaults refuses defaults that break the rules of their own field.
func (b *builder) checkDefaults(p *part, compiler *validator.Compiler, location string) {
	if p.def != nil {
		if rules, err := compiler.Compile(location); err != nil || rules.Validate(p.def) != nil {
			b.mistake(p, "has a default that breaks its own rules")
		}
	}
	for _, field := range p.fields {
		name := strings.NewReplacer("~", "~0", "/", "~1").Replace(field.name)
		b.checkDefaults(field, compiler, location+"/properties/"+url.PathEscape(name))
	}
	switch p.kind {
	case listPart:
		b.checkDefaults(p.item, compiler, location+"/items")
	case mapPart:
		b.checkDefaults(p.item, compiler, location+"/additionalProperties")
	default:
	}
}

// schemaURL names the schema while it is compiled. Nothing is ever loaded.
const schemaURL = "https://cairn.invalid/form"

// emailPattern is what browsers take for an e-mail address, so that page and server agree. It is made when it is
// needed: it is large, and most programs have no forms.
var emailPattern = sync.OnceValue(func() *regexp.Regexp {
	const label = `[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?`
	return regexp.MustCompile("^[a-zA-Z0-9.!#$%&'*+/=?^_`{|}~-]+@" + label + `(?:\.` + label + `)*$`)
})

const maxEmail = 254 // characters, by RFC 5321

func checkEmail(v any) error {
	if text, ok := v.(string); ok && (len(text) > maxEmail || !emailPattern().MatchString(text)) {
		return errors.New("no e-mail address")
	}
	return nil
}

func newCompiler(schema []byte) (*validator.Compiler, error) {
	doc, err := validator.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, err
	}
	compiler := validator.NewCompiler()
	compiler.AssertFormat()
	compiler.UseLoader(validator.SchemeURLLoader{})
	compiler.RegisterFormat(&validator.Format{Name: "email", Validate: checkEmail})
	return compiler, compiler.AddResource(schemaURL, doc)
}

// mirror returns a plain type with the same shape as the part. Its fields are called F0, F1 and so on.
func (p *part) mirror() reflect.Type {
	switch p.kind {
	case groupPart:
		fields := make([]reflect.StructField, len(p.fields))
		for i, field := range p.fields {
			fields[i] = reflect.StructField{
				Name: "F" + strconv.Itoa(i), Type: field.mirror(), Tag: field.tags.forInvopop,
			}
		}
		return reflect.StructOf(fields)
	case listPart:
		return reflect.SliceOf(p.item.mirror())
	case mapPart:
		return reflect.MapOf(reflect.TypeFor[string](), p.item.mirror())
	case timePart:
		return reflect.TypeFor[time.Time]()
	case wholePart:
		return reflect.TypeFor[int]()
	case numberPart:
		return reflect.TypeFor[float64]()
	case boolPart:
		return reflect.TypeFor[bool]()
	default:
		return reflect.TypeFor[string]()
	}
}

// amend adds to a schema what the library cannot know: real names, labels, what is required, choices and ranges.
func (p *part) amend(s *generator.Schema) {
	if p.name != "" {
		s.Title = p.label()
	}
	s.Default, s.WriteOnly = p.def, p.sensitive()
	switch p.kind {
	case groupPart:
		p.amendFields(s)
	case listPart:
		p.item.amend(s.Items)
		s.Items.Enum, s.Items.Default = p.enum, nil
		p.amendSize(s)
	case mapPart:
		p.item.amend(s.AdditionalProperties)
		s.MinProperties = p.atLeastOne(nil)
	case wholePart:
		s.Enum = p.enum
		p.amendRange(s)
	case bytesPart:
		s.ContentEncoding = "base64"
		s.MinLength = p.atLeastOne(s.MinLength)
	default:
		s.Enum = p.enum
		if p.textual() {
			s.MinLength = p.atLeastOne(s.MinLength)
		}
	}
}

func (p *part) amendFields(s *generator.Schema) {
	properties := generator.NewProperties()
	s.Required = nil
	for i, field := range p.fields {
		property, _ := s.Properties.Get("F" + strconv.Itoa(i))
		field.amend(property)
		properties.Set(field.name, property)
		if field.required {
			s.Required = append(s.Required, field.name)
		}
	}
	s.Properties = properties
}

func (p *part) amendSize(s *generator.Schema) {
	if p.size >= 0 {
		size := uint64(p.size)
		s.MinItems, s.MaxItems = &size, &size
		return
	}
	s.MinItems = p.atLeastOne(s.MinItems)
}

// atLeastOne raises a minimum to one for a part that is required: an empty text or list is the same as none.
func (p *part) atLeastOne(minimum *uint64) *uint64 {
	if one := uint64(1); p.required && p.kind != groupPart && (minimum == nil || *minimum == 0) {
		return &one
	}
	return minimum
}

// amendRange adds the range of the Go type, where the tags do not narrow it.
func (p *part) amendRange(s *generator.Schema) {
	low, high := p.typeRange()
	if own, ok := new(big.Rat).SetString(s.Minimum.String()); !ok || own.Cmp(new(big.Rat).SetInt(low)) < 0 {
		s.Minimum = json.Number(low.String())
	}
	if own, ok := new(big.Rat).SetString(s.Maximum.String()); !ok || own.Cmp(new(big.Rat).SetInt(high)) > 0 {
		s.Maximum = json.Number(high.String())
	}
}

// typeRange returns the least and the greatest value of an integer type.
func (p *part) typeRange() (low, high *big.Int) {
	bits, one := uint(p.goType.Bits()), big.NewInt(1)
	if p.goType.Kind() >= reflect.Uint && p.goType.Kind() <= reflect.Uintptr {
		return new(big.Int), new(big.Int).Sub(new(big.Int).Lsh(one, bits), one)
	}
	high = new(big.Int).Sub(new(big.Int).Lsh(one, bits-1), one)
	return new(big.Int).Sub(new(big.Int).Neg(high), one), high
}
