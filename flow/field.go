package flow

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/cairn-workflow/cairn/internal/form"
)

// Field is what a page needs to show one field of a form.
type Field struct {
	Path    string `json:"path"`            // dotted; the name of the HTML field
	Label   string `json:"label"`           // the title, or the name in words
	Help    string `json:"help,omitempty"`  // what stands beside the field
	Group   string `json:"group,omitempty"` // the labels of the structs that the field is in, with slashes between them
	Control string `json:"control"`         // a type of an HTML input, "select", "radio", "checkboxes", "textarea", "list" or "map"
	// Required is whether the field needs a value.
	Required     bool     `json:"required,omitempty"`
	Multiple     bool     `json:"multiple,omitempty"`  // takes several values: choices, or the lines of a textarea
	Sensitive    bool     `json:"sensitive,omitempty"` // its value must never be shown, logged or sent back
	Choices      []Choice `json:"choices,omitempty"`
	Default      []string `json:"default,omitempty"` // as the control takes it; several only if Multiple
	Min          string   `json:"min,omitempty"`
	Max          string   `json:"max,omitempty"`
	Step         string   `json:"step,omitempty"` // a number, or "any"
	MinLength    int      `json:"minLength,omitempty"`
	MaxLength    int      `json:"maxLength,omitempty"` // 0: no limit
	Pattern      string   `json:"pattern,omitempty"`   // for HTML: it matches the whole value
	Autocomplete string   `json:"autocomplete,omitempty"`
	Items        []Field  `json:"items,omitempty"` // the fields of one entry of a list or map
}

// Choice is a value that a field may have.
type Choice struct {
	Value string `json:"value"`
	Label string `json:"label"`
}

func fieldsOf(list []form.Field) []Field {
	fields := make([]Field, len(list))
	for i, f := range list {
		choices := make([]Choice, len(f.Choices))
		for j, c := range f.Choices {
			choices[j] = Choice(c)
		}
		fields[i] = Field{
			Path: f.Path, Label: f.Label, Help: f.Help, Group: f.Group, Control: f.Control, Required: f.Required, Multiple: f.Multiple,
			Sensitive: f.Sensitive, Choices: choices, Default: f.Default, Min: f.Min, Max: f.Max, Step: f.Step, MinLength: f.MinLength,
			MaxLength: f.MaxLength, Pattern: f.Pattern, Autocomplete: f.Autocomplete, Items: fieldsOf(f.Items),
		}
	}
	return fields
}

// shownValues returns those values of a form that may be shown: no others, and not those of sensitive fields.
func shownValues(text json.RawMessage, fields []Field) json.RawMessage {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var all map[string]any
	if decoder.Decode(&all) != nil {
		return nil
	}
	shown, err := json.Marshal(shownOf(all, fields))
	if err != nil {
		return nil
	}
	return shown
}

func shownOf(all map[string]any, fields []Field) map[string]any {
	shown := map[string]any{}
	for _, f := range fields {
		from, to, path := all, shown, strings.Split(f.Path, ".")
		for _, name := range path[:len(path)-1] {
			from, _ = from[name].(map[string]any)
			inner, ok := to[name].(map[string]any)
			if !ok && from != nil {
				inner = map[string]any{}
				to[name] = inner
			}
			to = inner
		}
		if v, ok := from[path[len(path)-1]]; ok && !f.Sensitive {
			to[path[len(path)-1]] = shownEntries(v, f.Items)
		}
	}
	return shown
}

// shownEntries leaves out of the entries of a list or map what may not be shown.
func shownEntries(v any, items []Field) any {
	if len(items) == 0 || items[0].Path == "" {
		return v
	}
	entries := func(v any) any {
		entry, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		return shownOf(entry, items)
	}
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = entries(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = entries(v[name])
		}
	}
	return v
}
