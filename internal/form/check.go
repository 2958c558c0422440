package form

import (
	"bytes"
	"encoding"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	validator "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// Fields are the problems of a form's value: dotted paths ("address.street", "lines.0.qty") with messages for people.
// The path "" is the form itself. A message never shows a value.
type Fields map[string]string

// maxProblems is how many paths have messages. A value of many entries can have as many problems.
const maxProblems = 100

// add adds a message to those of a path.
func (w Fields) add(path, message string) {
	if _, known := w[path]; !known && len(w) >= maxProblems {
		return
	}
	switch known := w[path]; {
	case known == "":
		w[path] = message
	case !slices.Contains(strings.Split(known, "; "), message):
		w[path] = known + "; " + message
	}
}

// findings are what a look at the types of a value has found.
type findings struct {
	wrong   Fields
	spoiled map[string]bool // lists with entries that are wrong, and left out: the others may seem to be equal
}

func newFindings() findings { return findings{wrong: Fields{}, spoiled: map[string]bool{}} }

const isRequired = "is required"

// Check checks a value. If it is right, parsed is the value with its defaults, and without the properties that the form
// does not know. Then encoding/json can decode it into the struct type. Else wrong has all problems.
//
// Null is the same as a missing property. A required group is checked even if it is missing, so that the problems name
// its fields. At most a hundred fields have messages. The time grows with the size of the value, which the caller limits.
func (f *Form) Check(value json.RawMessage) (parsed json.RawMessage, wrong Fields) {
	v, err := parse(value)
	if err != nil {
		return nil, Fields{"": err.Error()}
	}
	if _, ok := v.(map[string]any); !ok {
		return nil, Fields{"": "must be an object"}
	}
	found := newFindings()
	v = f.root.clean("", v, found)
	f.checkRules(v, found)
	if len(found.wrong) > 0 {
		return nil, found.wrong
	}
	return f.root.appendJSON(nil, v), nil
}

// checkRules adds what breaks the rules of the schema, except in places that are known to be wrong.
func (f *Form) checkRules(v any, found findings) {
	failure, ok := errors.AsType[*validator.ValidationError](f.rules.Validate(v))
	if !ok {
		return
	}
	broken := Fields{}
	gather(failure, broken, found.spoiled)
	for path, message := range broken {
		if found.wrong[path] == "" {
			found.wrong[path] = message
		}
	}
}

func gather(failure *validator.ValidationError, broken Fields, spoiled map[string]bool) {
	for _, cause := range failure.Causes {
		gather(cause, broken, spoiled)
	}
	if len(failure.Causes) > 0 {
		return
	}
	path := strings.Join(failure.InstanceLocation, ".")
	switch broke := failure.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range broke.Missing {
			broken.add(join(path, name), isRequired)
		}
	case *kind.UniqueItems:
		if !spoiled[path] {
			broken.add(path, message(broke))
		}
	default:
		broken.add(path, message(broke))
	}
}

// clean returns a value as the rules want to have it: with defaults and without unknown properties, integers written
// as such. What its type does not take is added to found, and left out.
func (p *part) clean(path string, v any, found findings) any {
	if message := p.misfit(v); message != "" {
		found.wrong.add(path, message)
		return nil
	}
	switch v := v.(type) {
	case map[string]any:
		if p.kind == groupPart {
			return p.cleanGroup(path, v, found)
		}
		entries := make(map[string]any, len(v))
		for key, entry := range v {
			entries[key] = p.item.cleanEntry(join(path, key), entry, found)
		}
		return entries
	case []any:
		entries, before := make([]any, len(v)), len(found.wrong)
		for i, entry := range v {
			entries[i] = p.item.cleanEntry(join(path, strconv.Itoa(i)), entry, found)
		}
		if len(found.wrong) > before {
			found.spoiled[path] = true
		}
		return entries
	case json.Number:
		if p.kind == wholePart {
			v, _ = wholeNumber(v)
		}
		return v
	default:
		return v
	}
}

func (p *part) cleanEntry(path string, v any, found findings) any {
	if p.empty(v) {
		found.wrong.add(path, isRequired)
		return nil
	}
	return p.clean(path, v, found)
}

func (p *part) cleanGroup(path string, v map[string]any, found findings) any {
	values := make(map[string]any, len(p.fields))
	for _, field := range p.fields {
		value, place := v[field.name], join(path, field.name)
		if value == nil {
			value = field.def
		}
		if value == nil && field.kind == groupPart && field.required {
			value = map[string]any{}
		}
		switch {
		case field.required && field.empty(value):
			found.wrong.add(place, isRequired)
		case value != nil:
			if value = field.clean(place, value, found); value != nil {
				values[field.name] = value
			}
		}
	}
	return values
}

// empty reports whether a value is as good as none.
func (p *part) empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == "" && p.textual()
	case []any:
		return len(v) == 0 && p.kind == listPart && p.size != 0
	case map[string]any:
		return len(v) == 0 && p.kind == mapPart
	default:
		return false
	}
}

// misfit says what is wrong with a value for its type, "": nothing. Its parts are not looked at.
func (p *part) misfit(v any) string {
	switch v := v.(type) {
	case bool:
		if p.kind == boolPart {
			return ""
		}
	case json.Number:
		if p.kind == wholePart || p.kind == numberPart {
			return p.misfitNumber(v)
		}
	case string:
		if p.textual() {
			return p.misfitText(v)
		}
	case []any:
		if p.kind == listPart {
			return ""
		}
	case map[string]any:
		if p.kind == groupPart || p.kind == mapPart {
			return ""
		}
	}
	return wrongKind[p.kind]
}

// wrongKind says what a value of another kind should be.
var wrongKind = map[partKind]string{
	groupPart:   "must be an object",
	listPart:    "must be a list",
	mapPart:     "must be an object",
	textPart:    "must be text",
	ownTextPart: "must be text",
	bytesPart:   "must be text",
	timePart:    knownFormats["date-time"],
	wholePart:   "must be a whole number",
	numberPart:  "must be a number",
	boolPart:    "must be true or false",
}

func (p *part) misfitNumber(v json.Number) string {
	if !plainNumber(v.String()) {
		return "is too long for a number"
	}
	if p.kind == wholePart {
		if _, ok := wholeNumber(v); !ok {
			return wrongKind[wholePart]
		}
	} else if p.goType.Kind() != reflect.String {
		if _, err := strconv.ParseFloat(v.String(), p.goType.Bits()); err != nil {
			return "is too large"
		}
	}
	return ""
}

func (p *part) misfitText(v string) string {
	var err error
	switch p.kind {
	case timePart:
		err = new(time.Time).UnmarshalJSON([]byte(`"` + v + `"`))
		if err != nil {
			return knownFormats["date-time"]
		}
	case bytesPart:
		_, err = base64.StdEncoding.DecodeString(v)
	case ownTextPart:
		err = reflect.New(p.goType).Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(v))
	default:
	}
	if err != nil {
		return isNotValid
	}
	return ""
}

// wholeNumber returns a whole number as Go's integers are read, without point and exponent.
func wholeNumber(n json.Number) (json.Number, bool) {
	if !strings.ContainsAny(n.String(), ".eE") && n != "-0" {
		return n, true
	}
	value, ok := new(big.Rat).SetString(n.String())
	if !ok || !value.IsInt() {
		return n, false
	}
	return json.Number(value.Num().String()), true
}

// appendJSON appends a value. The properties of a group are in the order of the struct.
func (p *part) appendJSON(out []byte, v any) []byte {
	switch v := v.(type) {
	case map[string]any:
		out = append(out, '{')
		separator := ""
		write := func(name string, p *part, value any) {
			out = append(append(out, separator...), quote(name)...)
			out = p.appendJSON(append(out, ':'), value)
			separator = ","
		}
		for _, field := range p.fields {
			if value, ok := v[field.name]; ok {
				write(field.name, field, value)
			}
		}
		if p.kind == mapPart {
			for _, key := range slices.Sorted(maps.Keys(v)) {
				write(key, p.item, v[key])
			}
		}
		return append(out, '}')
	case []any:
		out = append(out, '[')
		for i, entry := range v {
			if i > 0 {
				out = append(out, ',')
			}
			out = p.item.appendJSON(out, entry)
		}
		return append(out, ']')
	case json.Number:
		return append(out, v...)
	case string:
		return append(out, quote(v)...)
	case bool:
		return strconv.AppendBool(out, v)
	default:
		return append(out, "null"...)
	}
}

func quote(text string) []byte {
	quoted, _ := json.Marshal(text) // which does not fail for a string
	return quoted
}

// The problems of a value that cannot be read at all.
var (
	errNotJSON = errors.New("is not valid JSON")
	errTooDeep = errors.New("is nested too deeply")
	errTwice   = errors.New("has a name twice")
)

// maxFormDepth limits how deep a value may be nested, with the properties that the form does not have.
const maxFormDepth = 64

// parse reads one value of JSON. Unlike encoding/json it refuses an object that has a name twice, which two readers
// could understand in two ways.
func parse(text []byte) (any, error) {
	if !utf8.Valid(text) || !json.Valid(text) {
		return nil, errNotJSON
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	v, err := parseValue(decoder, 0)
	if err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errNotJSON
	}
	return v, nil
}

func parseValue(decoder *json.Decoder, depth int) (any, error) {
	token, err := decoder.Token()
	if err != nil {
		return nil, errNotJSON
	}
	delim, ok := token.(json.Delim)
	if !ok {
		return token, nil
	}
	if depth == maxFormDepth {
		return nil, errTooDeep
	}
	if delim == '[' {
		return parseList(decoder, depth)
	}
	return parseObject(decoder, depth)
}

func parseList(decoder *json.Decoder, depth int) (any, error) {
	list := []any{}
	for decoder.More() {
		v, err := parseValue(decoder, depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err := decoder.Token()
	return list, err
}

func parseObject(decoder *json.Decoder, depth int) (any, error) {
	object := map[string]any{}
	for decoder.More() {
		token, err := decoder.Token()
		name, ok := token.(string)
		if err != nil || !ok {
			return nil, errNotJSON
		}
		if _, twice := object[name]; twice {
			return nil, errTwice
		}
		if object[name], err = parseValue(decoder, depth+1); err != nil {
			return nil, err
		}
	}
	_, err := decoder.Token()
	return object, err
}
