package form

import (
	"encoding/json"
	"math/big"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// tags are what the struct tags of a field say.
type tags struct {
	title        string
	help         string
	required     bool
	keywords     []keyword // of the jsonschema tag, without the title, the help text and required
	control      string
	choices      []Choice
	autocomplete string
	forInvopop   reflect.StructTag // what the library reads
}

// keyword is a word of JSON Schema with its value.
type keyword struct{ name, value string }

// get returns the value of a keyword, "" if the tag does not have it.
func (t *tags) get(name string) string {
	for _, k := range t.keywords {
		if k.name == name {
			return k.value
		}
	}
	return ""
}

func (t *tags) has(name string) bool {
	return slices.ContainsFunc(t.keywords, func(k keyword) bool { return k.name == name })
}

// all returns the values of a keyword that may be there several times.
func (t *tags) all(name string) (values []string) {
	for _, k := range t.keywords {
		if k.name == name {
			values = append(values, k.value)
		}
	}
	return values
}

func (b *builder) readTags(p *part, tag reflect.StructTag) {
	t := tags{control: tag.Get("form"), autocomplete: tag.Get("autocomplete")}
	for _, word := range splitTag(tag.Get("jsonschema")) {
		name, value, hasValue := strings.Cut(word, "=")
		switch {
		case name == "title" && hasValue:
			t.title = value
		case name == "description" && hasValue:
			t.help = value
		case word == "required":
			t.required = true
		case !hasValue:
			b.mistake(p, "has the word %q in its jsonschema tag, which forms do not know", word)
		default:
			t.keywords = append(t.keywords, keyword{name, value})
		}
	}
	if help := tag.Get("jsonschema_description"); help != "" {
		t.help = help
	}
	for _, choice := range splitTag(tag.Get("choices")) {
		value, label, labelled := strings.Cut(choice, "=")
		if !labelled {
			label = value
		}
		t.choices = append(t.choices, Choice{value, label})
	}
	for _, word := range splitTag(tag.Get("jsonschema_extras")) {
		if !strings.HasPrefix(word, "x-") {
			b.mistake(p, "has %q in its jsonschema_extras tag: only names that begin with x- are allowed", word)
		}
	}
	for _, key := range []string{"jsonschema", "jsonschema_description", "jsonschema_extras"} {
		if value := tag.Get(key); value != "" {
			t.forInvopop += reflect.StructTag(key + ":" + strconv.Quote(value) + " ")
		}
	}
	p.tags = t
}

// splitTag splits at commas, as invopop/jsonschema does: one after a backslash does not separate.
func splitTag(tag string) (words []string) {
	continued := false
	for word := range strings.SplitSeq(tag, ",") {
		if continued {
			words[len(words)-1] += "," + word
		} else if word != "" {
			words = append(words, word)
		}
		if continued = len(words) > 0 && strings.HasSuffix(words[len(words)-1], `\`); continued {
			words[len(words)-1] = strings.TrimSuffix(words[len(words)-1], `\`)
		}
	}
	return words
}

// The keywords that a jsonschema tag may have, by the kind of value that they are about.
var (
	textKeywords   = []string{"minLength", "maxLength", "pattern", "format", "enum", "example", "default"}
	numberKeywords = []string{
		"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "enum", "example", "default",
	}
	listKeywords = []string{"minItems", "maxItems", "uniqueItems"}
	// repeatable keywords may be there several times; a default only if it is one of a list.
	repeatable = []string{"enum", "example"}
)

// keywords returns the keywords that make sense for a part.
func (p *part) keywords() []string {
	switch p.kind {
	case textPart, ownTextPart:
		return textKeywords
	case wholePart, numberPart:
		return numberKeywords
	case boolPart:
		return []string{"default"}
	case timePart:
		return []string{"default", "format"}
	case listPart:
		if !p.item.scalar() || p.item.kind == bytesPart {
			return listKeywords
		}
		return slices.Concat(listKeywords, p.item.keywords())
	default:
		return nil
	}
}

// checkKeywords refuses keywords that the library would not read, or that would mean nothing.
func (b *builder) checkKeywords(p *part) {
	known := p.keywords()
	seen := make(map[string]bool)
	for _, k := range p.tags.keywords {
		again := seen[k.name] && !slices.Contains(repeatable, k.name) && (k.name != "default" || p.kind != listPart)
		seen[k.name] = true
		switch {
		case !slices.Contains(known, k.name):
			b.mistake(p, "has the keyword %q in its jsonschema tag, which does not go with its type", k.name)
		case again:
			b.mistake(p, "has the keyword %q twice in its jsonschema tag", k.name)
		case p.kind == listPart && strings.Contains(k.value, "="):
			b.mistake(p, "has an equals sign in %q, which is not possible for a list", k.name)
		case !p.readable(k):
			b.mistake(p, "has %q in its jsonschema tag, which is not a possible value", k.name+"="+k.value)
		}
	}
	for _, pair := range [][2]string{{"minimum", "maximum"}, {"minLength", "maxLength"}, {"minItems", "maxItems"}} {
		low, hasLow := new(big.Rat).SetString(p.tags.get(pair[0]))
		high, hasHigh := new(big.Rat).SetString(p.tags.get(pair[1]))
		if hasLow && hasHigh && low.Cmp(high) > 0 {
			b.mistake(p, "has a %s above its %s", pair[0], pair[1])
		}
	}
}

// knownFormats are the formats that are checked, with what people are told.
var knownFormats = map[string]string{
	"date":          "is not a valid date",
	"date-time":     "is not a valid date and time",
	"time":          "is not a valid time",
	"duration":      "is not a valid duration",
	"email":         "is not a valid e-mail address",
	"hostname":      "is not a valid host name",
	"ipv4":          "is not a valid IP address",
	"ipv6":          "is not a valid IP address",
	"iri":           "is not a valid web address",
	"iri-reference": "is not a valid web address",
	"uri":           "is not a valid web address",
	"uri-reference": "is not a valid web address",
	"regex":         "is not a valid regular expression",
	"semver":        "is not a valid version",
	"uuid":          "is not a valid UUID",
}

// readable reports whether the library can read the value of a keyword.
func (p *part) readable(k keyword) bool {
	switch k.name {
	case "minLength", "maxLength", "minItems", "maxItems":
		_, err := strconv.ParseUint(k.value, 10, 31)
		return err == nil
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum":
		return plainNumber(k.value)
	case "multipleOf":
		step, ok := new(big.Rat).SetString(k.value)
		return ok && plainNumber(k.value) && step.Sign() > 0
	case "example":
		kind := p.inner().kind
		return kind != wholePart && kind != numberPart || plainNumber(k.value)
	case "pattern":
		_, err := regexp.Compile(k.value)
		return err == nil
	case "format":
		_, known := knownFormats[k.value]
		return known && (p.inner().kind != timePart || k.value == "date-time")
	case "uniqueItems":
		return k.value == "true"
	default:
		return true // defaults and choices are checked as values
	}
}

// plainNumber reports whether a text is a number of JSON that can be calculated with at no great cost.
func plainNumber(text string) bool {
	const maxDigits, maxExponent = 400, 400 // above what a float64 can be
	if len(text) > maxDigits || !json.Valid([]byte(text)) || !unicode.IsDigit(rune(text[len(text)-1])) {
		return false
	}
	at := strings.IndexAny(text, "eE")
	if at < 0 {
		return true
	}
	exponent, err := strconv.Atoi(text[at+1:])
	return err == nil && exponent <= maxExponent && exponent >= -maxExponent
}
