package form

import (
	"encoding/json"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// FromValues returns what an HTML form has sent as JSON for [Form.Check].
//
// Names are dotted paths. Repeated names give a list, and so do the lines of a textarea. A name like "lines.0.qty" is
// part of an entry of a list; entries that nobody has filled in are dropped. A checkbox that is absent is false. An
// empty text is a missing value. An optional group is missing if nobody has filled it in. A date and time without zone
// is in UTC. A text that cannot be converted stays a text, so that Check names it.
func (f *Form) FromValues(v url.Values) json.RawMessage {
	sent := new(input)
	for name, texts := range v {
		sent.put(f.root, name, texts)
	}
	value, _ := f.root.read(sent)
	return f.root.appendJSON(nil, value)
}

// input is a tree of what a form has sent, by the segments of the names. Nil is an input that has nothing.
type input struct {
	texts []string
	parts map[string]*input
}

// put keeps the texts of a name, if the form has such a place: other names must not cost memory.
func (in *input) put(p *part, name string, texts []string) {
	for more := true; more; {
		var segment string
		if p.kind == mapPart && p.item.scalar() {
			segment, more = name, false // keys may have dots
		} else {
			segment, name, more = strings.Cut(name, ".")
		}
		if p = p.inside(segment); p == nil {
			return
		}
		if in.parts == nil {
			in.parts = make(map[string]*input)
		}
		if in.parts[segment] == nil {
			in.parts[segment] = new(input)
		}
		in = in.parts[segment]
	}
	in.texts = texts
}

// inside returns the part that a segment of a name leads to, nil: none.
func (p *part) inside(segment string) *part {
	switch {
	case p.kind == groupPart:
		return p.byName[segment]
	case p.kind == mapPart:
		return p.item
	case p.kind == listPart && !p.item.scalar():
		if n, err := strconv.Atoi(segment); err == nil && n >= 0 && strconv.Itoa(n) == segment {
			return p.item
		}
	}
	return nil
}

func (in *input) part(name string) *input {
	if in == nil {
		return nil
	}
	return in.parts[name]
}

func (in *input) first() string {
	if in == nil || len(in.texts) == 0 {
		return ""
	}
	return in.texts[0]
}

// read returns the value of a part, and false if it is missing.
func (p *part) read(in *input) (any, bool) {
	switch {
	case p.kind == groupPart:
		values := make(map[string]any, len(p.fields))
		for _, field := range p.fields {
			if value, ok := field.read(in.part(field.name)); ok {
				values[field.name] = value
			}
		}
		return values, p.required || p.answered(in)
	case p.kind == mapPart:
		return p.readMap(in)
	case p.kind == listPart && p.item.scalar():
		return p.readTexts(in)
	case p.kind == listPart:
		return p.readEntries(in)
	case p.control == controlCheckbox:
		return p.readCheckbox(in), true
	}
	text := p.tidy(in.first())
	return p.convert(text), text != ""
}

func (p *part) readMap(in *input) (any, bool) {
	entries := make(map[string]any)
	for key := range in.all() {
		if entry := in.parts[key]; p.item.answered(entry) {
			entries[key], _ = p.item.read(entry)
		}
	}
	return entries, len(entries) > 0
}

// readTexts reads a list whose entries are texts of one name.
func (p *part) readTexts(in *input) (any, bool) {
	entries := []any{}
	if in != nil {
		for _, text := range in.texts {
			for _, entry := range p.split(text) {
				if entry != "" {
					entries = append(entries, p.item.convert(p.item.tidy(entry)))
				}
			}
		}
	}
	// Nothing is sent if nothing is chosen, which is an answer if there is a default.
	return entries, len(entries) > 0 || len(p.choices) > 0
}

// split returns the entries that one text has.
func (p *part) split(text string) []string {
	if p.control != controlTextarea {
		return []string{text}
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return lines
}

// readEntries reads a list whose entries have numbers in their names. The numbers give the order, and may have gaps.
func (p *part) readEntries(in *input) (any, bool) {
	var numbers []int
	for key := range in.all() {
		n, _ := strconv.Atoi(key) // inside has looked at it
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	entries := []any{}
	for _, n := range numbers {
		if entry := in.parts[strconv.Itoa(n)]; p.item.answered(entry) {
			value, _ := p.item.read(entry)
			entries = append(entries, value)
		}
	}
	return entries, len(entries) > 0
}

func (in *input) all() map[string]*input {
	if in == nil {
		return nil
	}
	return in.parts
}

// answered reports whether a person has filled in a part: something was sent that is no default.
func (p *part) answered(in *input) bool {
	switch {
	case in == nil:
		return false
	case p.kind == groupPart:
		return slices.ContainsFunc(p.fields, func(f *part) bool { return f.answered(in.parts[f.name]) })
	case p.item != nil && !p.item.scalar() || p.kind == mapPart:
		for entry := range maps.Values(in.parts) {
			if p.item.answered(entry) {
				return true
			}
		}
		return false
	case p.control == controlCheckbox:
		return p.readCheckbox(in) != false && p.def != true
	}
	return slices.ContainsFunc(in.texts, func(text string) bool {
		return p.tidy(text) != "" && !slices.Contains(p.defaults(), p.tidy(text))
	})
}

// readCheckbox returns whether a checkbox is on: a bool, or the text that it has sent if that is neither.
func (p *part) readCheckbox(in *input) any {
	var value any = false
	if in == nil {
		return value
	}
	for _, text := range in.texts { // a hidden field of the same name may say false, too
		switch converted := p.convert(text); converted {
		case true:
			return true
		case false:
		default:
			value = converted
		}
	}
	return value
}

// tidy removes what a browser or a person adds to a text without meaning it.
func (p *part) tidy(text string) string {
	switch p.control {
	case controlNumber, controlEmail, controlURL, controlDate, controlDateTime:
		return strings.TrimSpace(text)
	case controlTextarea: // browsers count a line break as one character, and send two
		return strings.ReplaceAll(text, "\r\n", "\n")
	default:
		return text
	}
}

// numberText is a number as people may write it: with a plus sign or leading zeros, which JSON does not have.
var numberText = regexp.MustCompile(`^([+-]?)0*([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)$`)

// convert returns the value that a text stands for, the text itself if it does not fit.
func (p *part) convert(text string) any {
	switch p.kind {
	case wholePart, numberPart:
		if found := numberText.FindStringSubmatch(strings.TrimSpace(text)); found != nil {
			return json.Number(strings.TrimPrefix(found[1], "+") + found[2])
		}
	case boolPart:
		switch text {
		case "true", "on", "1", "yes":
			return true
		case "false", "off", "0", "no", "":
			return false
		}
	case timePart:
		return withZone(text)
	case textPart:
		if p.control == controlDateTime {
			return withZone(text)
		}
	default:
	}
	return text
}

// withZone makes a time of RFC 3339 out of one without zone, which is what browsers send, and takes it as UTC.
func withZone(text string) string {
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.Format(time.RFC3339Nano)
		}
	}
	return text
}
