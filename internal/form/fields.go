package form

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// The controls of fields: the types of an HTML input, or the element. [Field.Items] says what the last two are.
const (
	controlText       = "text"
	controlEmail      = "email"
	controlPassword   = "password"
	controlNumber     = "number"
	controlCheckbox   = "checkbox"
	controlDate       = "date"
	controlDateTime   = "datetime-local"
	controlURL        = "url"
	controlSelect     = "select"
	controlRadio      = "radio"
	controlCheckboxes = "checkboxes"
	controlTextarea   = "textarea"
	controlHidden     = "hidden"
	controlList       = "list"
	controlMap        = "map"
)

// Field is what a page needs to show one field of a form.
type Field struct {
	Path    string `json:"path"`  // dotted; the name of the HTML field
	Label   string `json:"label"` // the title, or the name in words
	Help    string `json:"help,omitempty"`
	Group   string `json:"group,omitempty"` // the labels of the structs that the field is in, with slashes between them
	Control string `json:"control"`
	// Required is whether the field needs a value. It is false for a checkbox, which may stay off, and in an optional
	// group. On each of several checkboxes, HTML's required attribute would demand all of them.
	Required  bool     `json:"required,omitempty"`
	Multiple  bool     `json:"multiple,omitempty"`  // takes several values: choices, or the lines of a textarea
	Sensitive bool     `json:"sensitive,omitempty"` // its value must never be shown, logged or sent back
	Choices   []Choice `json:"choices,omitempty"`
	Default   []string `json:"default,omitempty"` // as the control takes it; several only if Multiple
	Min       string   `json:"min,omitempty"`
	Max       string   `json:"max,omitempty"`
	Step      string   `json:"step,omitempty"` // a number, or "any"
	MinLength int      `json:"minLength,omitempty"`
	MaxLength int      `json:"maxLength,omitempty"` // 0: no limit
	// Pattern is for the pattern attribute of HTML, which must match the whole value. Browsers read it as JavaScript.
	Pattern      string `json:"pattern,omitempty"`
	Autocomplete string `json:"autocomplete,omitempty"`
	// Items are the fields of one entry, if the control is "list" (of structs or lists) or "map". In a page they are
	// called like "lines.0.qty": path, number or key of the entry, and path of the item, if it has one.
	Items []Field `json:"items,omitempty"`
}

// Choice is a value that a field may have.
type Choice struct {
	Value string `json:"value"`
	Label string `json:"label"`
}

// Fields returns what a page shows, in the order of the struct. The fields of nested structs stand among the others.
// The result must not be changed.
func (f *Form) Fields() []Field { return slices.Clone(f.fields) }

// sensitive reports whether a value must never be shown.
func (p *part) sensitive() bool { return p.control == controlPassword }

// chooseControl finds the control of a part, and refuses one that does not go with it.
func (b *builder) chooseControl(p *part) {
	usual, others := p.controls()
	p.control = p.tags.control
	if p.control == "" {
		p.control = usual
	} else if p.control != usual && !slices.Contains(others, p.control) {
		b.mistake(p, "has the control %q in its form tag, which does not go with its type or choices", p.control)
	}
	if p.kind == boolPart && len(p.choices) == 0 && (p.control == controlSelect || p.control == controlRadio) {
		p.choices = []Choice{{"true", "Yes"}, {"false", "No"}}
	}
	if !autocompleteWords.MatchString(p.tags.autocomplete) {
		b.mistake(p, "has an autocomplete tag that HTML does not know: %q", p.tags.autocomplete)
	}
}

// autocompleteWords are the tokens of HTML: small letters, digits and hyphens, with single spaces between them.
var autocompleteWords = regexp.MustCompile(`^([a-z0-9-]+( [a-z0-9-]+)*)?$`)

// controls returns the control that a part has without a form tag, and those that the tag may choose.
func (p *part) controls() (usual string, others []string) {
	chosen := len(p.choices) > 0
	switch p.kind {
	case groupPart:
		return "", nil
	case mapPart:
		return controlMap, nil
	case listPart:
		return p.listControls()
	case boolPart:
		if !chosen {
			return controlCheckbox, []string{controlSelect, controlRadio, controlHidden}
		}
	case wholePart, numberPart:
		usual, others = controlNumber, []string{controlText, controlHidden}
	case timePart:
		usual, others = controlDateTime, []string{controlText, controlHidden}
	case bytesPart:
		usual, others = controlTextarea, []string{controlText, controlHidden}
	case textPart, ownTextPart:
		usual, others = p.textControl(), []string{controlText, controlPassword, controlTextarea, controlHidden}
	}
	if chosen {
		return controlSelect, []string{controlRadio, controlHidden}
	}
	return usual, others
}

func (p *part) listControls() (usual string, others []string) {
	if !p.item.scalar() {
		return controlList, nil
	} else if len(p.choices) > 0 {
		return controlCheckboxes, []string{controlSelect}
	}
	return controlTextarea, nil
}

func (p *part) textControl() string {
	switch p.tags.get("format") {
	case "email":
		return controlEmail
	case "uri", "iri":
		return controlURL
	case "date":
		return controlDate
	case "date-time":
		return controlDateTime
	default:
		return controlText
	}
}

// appendFields appends the fields of a group. The paths of its fields begin with prefix.
func (p *part) appendFields(fields []Field, prefix, group string, optional bool) []Field {
	for _, field := range p.fields {
		path := join(prefix, field.name)
		if field.kind == groupPart {
			label := field.label()
			if group != "" {
				label = group + " / " + label
			}
			fields = field.appendFields(fields, path, label, optional || !field.required)
			continue
		}
		fields = append(fields, field.field(path, group, optional))
	}
	return fields
}

func (p *part) field(path, group string, optional bool) Field {
	f := Field{
		Path: path, Group: group, Help: p.tags.help, Control: p.control,
		Required:  p.required && !optional && p.control != controlCheckbox,
		Multiple:  p.kind == listPart && p.item.scalar(),
		Sensitive: p.sensitive(), Choices: p.choices, Default: p.defaults(),
		Pattern: wholePattern(p.tags.get("pattern")), Autocomplete: p.tags.autocomplete,
	}
	if p.name != "" {
		f.Label = p.label()
	}
	if f.Autocomplete == "" && (p.control == controlEmail || p.control == controlURL) {
		f.Autocomplete = p.control
	}
	p.setLimits(&f)
	switch {
	case f.Multiple: // the limits are about its entries, the control about all of them
		f.Pattern, f.MinLength, f.MaxLength, f.Min, f.Max, f.Step = "", 0, 0, "", "", ""
	case p.item != nil && p.item.kind == groupPart:
		f.Items = p.item.appendFields(nil, "", "", false)
	case p.item != nil:
		f.Items = []Field{p.item.field("", "", false)}
	}
	return f
}

// setLimits copies what the tags and the type say about a value.
func (p *part) setLimits(f *Field) {
	limit := func(name string) int {
		n, _ := json.Number(p.tags.get(name)).Int64()
		return int(n)
	}
	f.MinLength, f.MaxLength = limit("minLength"), limit("maxLength")
	f.Min, f.Max, f.Step = p.tags.get("minimum"), p.tags.get("maximum"), p.tags.get("multipleOf")
	if p.kind == numberPart && f.Step == "" {
		f.Step = "any"
	}
	if p.kind != wholePart {
		return
	}
	if f.Step == "" {
		f.Step = "1"
	}
	low, high := p.typeRange()
	narrow := p.goType.Bits() < 64 // nobody needs to see the range of an int
	if f.Min == "" && (narrow || low.Sign() == 0) {
		f.Min = low.String()
	}
	if f.Max == "" && narrow {
		f.Max = high.String()
	}
}

// wholePattern makes a pattern that must match the whole value from one that may match a part of it.
func wholePattern(pattern string) string {
	anchored := strings.HasPrefix(pattern, "^") && strings.HasSuffix(pattern, "$") && !strings.HasSuffix(pattern, `\$`)
	if pattern == "" || anchored && !strings.Contains(pattern, "|") {
		return pattern
	}
	return `[\s\S]*(?:` + pattern + `)[\s\S]*`
}

// defaults returns the default as texts of the control, none if there is no default.
func (p *part) defaults() []string {
	switch value := p.def.(type) {
	case nil:
		return nil
	case []any:
		texts := make([]string, len(value))
		for i, entry := range value {
			texts[i] = fmt.Sprint(entry)
		}
		return texts
	case string:
		if t, err := time.Parse(time.RFC3339, value); err == nil && p.control == controlDateTime {
			return []string{withoutZone(t)}
		}
		return []string{value}
	default:
		return []string{fmt.Sprint(value)}
	}
}

// withoutZone writes a time as a datetime-local control takes it, in UTC as FromValues reads it.
func withoutZone(t time.Time) string {
	layout := "2006-01-02T15:04"
	if t.Second() != 0 || t.Nanosecond() != 0 {
		layout = "2006-01-02T15:04:05.999"
	}
	return t.UTC().Format(layout)
}

// label returns the title of a field, or else its name in words: "First name" for firstName.
func (p *part) label() string {
	if p.tags.title != "" {
		return p.tags.title
	}
	words := splitName(p.name)
	for i, word := range words {
		acronym := utf8.RuneCountInString(word) > 1 && strings.ToUpper(word) == word
		if !acronym {
			words[i] = strings.ToLower(word)
		}
	}
	label := strings.Join(words, " ")
	first, size := utf8.DecodeRuneInString(label)
	if size == 0 {
		return p.name
	}
	return string(unicode.ToUpper(first)) + label[size:]
}

// splitName splits a name at underscores and the like, before capital letters, and after the last letter of an acronym.
func splitName(name string) (words []string) {
	letters := []rune(name)
	word := ""
	for i, c := range letters {
		if !unicode.IsLetter(c) && !unicode.IsDigit(c) {
			words, word = append(words, word), ""
			continue
		}
		afterSmall := i > 0 && !unicode.IsUpper(letters[i-1])
		beforeSmall := i+1 < len(letters) && unicode.IsLower(letters[i+1])
		if unicode.IsUpper(c) && (afterSmall || beforeSmall) {
			words, word = append(words, word), ""
		}
		word += string(c)
	}
	words = append(words, word)
	return slices.DeleteFunc(words, func(word string) bool { return word == "" })
}
