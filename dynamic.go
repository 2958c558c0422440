package cairn

import (
	"encoding/json"
	"reflect"

	"github.com/cairn-workflow/cairn/internal/payload"
)

// AnyStep is a [Step] of any types, for programs that choose steps by name.
type AnyStep interface {
	// Name returns the permanent name of the step.
	Name() string
	// Types returns the types of its input and its result.
	Types() (in, out reflect.Type)
	// DoJSON does the step with an input as JSON, and returns its result as JSON. An input that does not fit is an error.
	DoJSON(ctx Context, in json.RawMessage, opts ...StepOption) (json.RawMessage, error)
}

// AnyAttribute is an [Attribute] of any type.
type AnyAttribute interface {
	// Key returns the permanent key of the attribute.
	Key() string
	// Type returns the type of its values.
	Type() reflect.Type
	// SetJSON is the change that gives the attribute a value, as JSON. If the value does not fit, applying the change
	// fails.
	SetJSON(v json.RawMessage) AttributeChange
}

var (
	_ AnyStep      = Step[int, int]{}
	_ AnyAttribute = Attribute[int]{}
)

// Types returns the types of the step's input and result.
func (s Step[In, Out]) Types() (in, out reflect.Type) {
	return reflect.TypeFor[In](), reflect.TypeFor[Out]()
}

// DoJSON does the step with an input as JSON, and returns its result as JSON; see [AnyStep].
func (s Step[In, Out]) DoJSON(ctx Context, in json.RawMessage, opts ...StepOption) (json.RawMessage, error) {
	var v In
	p, err := payload.FromJSON(in)
	if err == nil {
		err = payload.Decode(p, &v)
	}
	if err != nil {
		return nil, malformedJSON("the input of step "+s.spec.Name, err)
	}
	out, err := s.Do(ctx, v, opts...)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(out)
	if err != nil {
		return nil, malformedJSON("the result of step "+s.spec.Name, err)
	}
	return text, nil
}

// Type returns the type of the attribute's values.
func (a Attribute[T]) Type() reflect.Type { return reflect.TypeFor[T]() }

// SetJSON is the change that gives the attribute a value, as JSON; see [AnyAttribute].
func (a Attribute[T]) SetJSON(v json.RawMessage) AttributeChange {
	var value T
	if err := json.Unmarshal(v, &value); err != nil {
		return AttributeChange{err: malformedJSON("attribute "+a.key, err)}
	}
	return a.Value(value)
}
