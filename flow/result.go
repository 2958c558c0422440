package flow

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Invalid says what is wrong with what somebody has filled in: messages for people, by the paths of the fields
// ("address.street"). "" is the form itself. An [Ask] whose function returns it is asked again.
type Invalid map[string]string //nolint:errname // it reads as what a function returns: flow.Invalid{"code": "is wrong"}

// Error implements error.
func (e Invalid) Error() string {
	texts := make([]string, 0, len(e))
	for _, path := range slices.Sorted(maps.Keys(e)) {
		text := e[path]
		if path != "" {
			text = path + " " + text
		}
		texts = append(texts, text)
	}
	return "invalid input: " + strings.Join(texts, "; ")
}

// Result is how a flow ends. The zero value says only that it has.
type Result struct {
	// Data is for the caller, as JSON.
	Data json.RawMessage `json:"data,omitempty"`
	// Message is for the person.
	Message string `json:"message,omitempty"`
	// Redirect is where the person goes on: a path of the same site, or an absolute URL.
	Redirect string `json:"redirect,omitempty"`

	err error // of Data
}

// Redirect ends a flow by sending the person somewhere.
func Redirect(to string) Result { return Result{Redirect: to} }

// Message ends a flow with a text for the person.
func Message(text string) Result { return Result{Message: text} }

// Data ends a flow with a value for the caller. A value that cannot be written as JSON fails the turn.
func Data(v any) Result {
	text, err := json.Marshal(v)
	return Result{Data: text, err: err}
}
