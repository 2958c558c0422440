package flow

import (
	"bytes"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// page is what the template shows.
type page struct {
	Title   string
	Message string
	Alert   string // what is wrong with the form itself
	Token   string
	Nonce   string // names the page
	Flow    string // without a token, a button starts it
	Ask     string
	Fields  []pageField
	Wrong   bool
}

// pageField is a field with its value.
type pageField struct {
	Field
	ID     string
	Value  string
	Values []string
	Error  string
	Legend string // the group that begins with the field
	First  bool   // it gets the focus
}

// Has reports whether a choice was made.
func (f pageField) Has(value string) bool { return slices.Contains(f.Values, value) }

// Checked reports whether a checkbox is on.
func (f pageField) Checked() bool { return f.Value == "true" || f.Value == "on" }

// page answers a person.
func (h *Handler) page(w http.ResponseWriter, r *http.Request, q *request, reply *Reply) {
	title := h.cfg.Title(reply.Flow)
	switch {
	case reply.Done != nil && reply.Done.Redirect != "":
		http.Redirect(w, r, reply.Done.Redirect, http.StatusSeeOther)
	case reply.Done != nil:
		message := reply.Done.Message
		if message == "" {
			message = "Done."
		}
		h.write(w, r, http.StatusOK, &page{Title: title, Message: message})
	case reply.Sent != "":
		h.write(w, r, http.StatusOK, &page{Title: title, Message: "This goes on with what was sent by " + reply.Sent + "."})
	case reply.Ask == nil:
		h.write(w, r, http.StatusOK, &page{Title: title, Flow: q.Flow})
	case r.Method == http.MethodPost && len(reply.Ask.Wrong) == 0:
		// The next page has an address of its own, so that loading it again sends nothing twice. It is relative: a path that
		// somebody else has made, such as //evil.example, would carry the token away.
		w.Header().Set("Location", "?"+url.Values{tokenParam: {reply.Token}}.Encode())
		w.WriteHeader(http.StatusSeeOther)
	default:
		status := http.StatusOK
		if len(reply.Ask.Wrong) > 0 {
			status = http.StatusUnprocessableEntity
		}
		h.write(w, r, status, formPage(title, reply, q.values))
	}
}

// formPage returns the page of a form, filled with what was sent, or else with what it begins with.
func formPage(title string, reply *Reply, sent url.Values) *page {
	p := &page{Title: title, Flow: reply.Flow, Ask: reply.Ask.Name, Token: reply.Token, Nonce: rand.Text(), Alert: reply.Ask.Wrong[""], Wrong: len(reply.Ask.Wrong) > 0}
	if sent == nil {
		sent = formValues(reply.Ask.Values)
	}
	group := ""
	for _, f := range flatten(reply.Ask.Fields, sent) {
		item := pageField{Field: f, ID: "f-" + f.Path, Error: reply.Ask.Wrong[f.Path]}
		if !f.Sensitive {
			item.Values = sent[f.Path]
			if len(item.Values) == 0 && !p.Wrong {
				item.Values = f.Default
			}
			item.Value = strings.Join(item.Values, "\n")
		}
		if f.Group != group {
			item.Legend, group = f.Group, f.Group
		}
		p.Fields = append(p.Fields, item)
	}
	for i := range p.Fields {
		if !p.Wrong || p.Fields[i].Error != "" {
			p.Fields[i].First = true
			break
		}
	}
	// A problem of a field that the page does not show is one of the form.
	shown := map[string]bool{"": true}
	for _, f := range p.Fields {
		shown[f.Path] = shown[f.Path] || f.Control != "hidden"
	}
	others := []string{p.Alert}
	for _, path := range slices.Sorted(maps.Keys(reply.Ask.Wrong)) {
		if !shown[path] && len(others) <= maxOthers {
			others = append(others, path+" "+reply.Ask.Wrong[path]+".")
		}
	}
	p.Alert = strings.TrimSpace(strings.Join(others, " "))
	return p
}

// maxOthers is how many problems a page names that belong to none of its fields.
const maxOthers = 10

// moreEntries is how many empty entries a page has for a list.
const moreEntries = 2

// maxEntries is how many entries of a list a page shows.
const maxEntries = 100

// flatten makes entries of lists fields of their own: those that there are, and some empty ones.
func flatten(fields []Field, values url.Values) []Field {
	var all []Field
	for _, f := range fields {
		if f.Control != "list" {
			all = append(all, f)
			continue
		}
		entries := moreEntries
		for path := range values {
			rest, ok := strings.CutPrefix(path, f.Path+".")
			number, _, _ := strings.Cut(rest, ".")
			if n, err := strconv.Atoi(number); ok && err == nil && n >= 0 && n < maxEntries {
				entries = max(entries, n+1+moreEntries)
			}
		}
		for i := range entries {
			for _, item := range f.Items {
				entry := item
				entry.Path = strings.TrimSuffix(fmt.Sprintf("%s.%d.%s", f.Path, i, item.Path), ".")
				entry.Group = fmt.Sprintf("%s %d", f.Label, i+1)
				entry.Required = false
				all = append(all, entry)
			}
		}
	}
	return all
}

// formValues returns the values of a JSON object by their dotted paths.
func formValues(text json.RawMessage) url.Values {
	values := url.Values{}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var v any
	if decoder.Decode(&v) == nil {
		addValues(values, "", v)
	}
	return values
}

func addValues(values url.Values, path string, v any) {
	under := func(name string) string { return strings.TrimPrefix(path+"."+name, ".") }
	switch v := v.(type) {
	case nil:
	case map[string]any:
		for name, item := range v {
			addValues(values, under(name), item)
		}
	case []any:
		for i, item := range v {
			if _, nested := item.(map[string]any); nested {
				addValues(values, under(strconv.Itoa(i)), item)
			} else {
				addValues(values, path, item)
			}
		}
	default:
		values.Add(path, fmt.Sprint(v))
	}
}

func (h *Handler) write(w http.ResponseWriter, r *http.Request, status int, p *page) {
	var text bytes.Buffer
	if err := pageTemplate.Execute(&text, p); err != nil {
		h.cfg.Logger.ErrorContext(r.Context(), "a page of a flow cannot be shown", slog.Any("error", err))
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(text.Bytes())
}
