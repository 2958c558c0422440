package form

import (
	"fmt"
	"math/big"
	"strings"

	validator "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

const (
	isNotValid = "is not valid" // for everything that has no better message
	maxNamed   = 20             // choices that a message names
)

// message says to a person which rule a value breaks.
func message(broken validator.ErrorKind) string {
	switch k := broken.(type) {
	case *kind.Enum:
		return oneOf(k.Want)
	case *kind.Format:
		if known, ok := knownFormats[k.Want]; ok {
			return known
		}
	case *kind.Minimum:
		return "must be at least " + decimal(k.Want)
	case *kind.Maximum:
		return "must be at most " + decimal(k.Want)
	case *kind.ExclusiveMinimum:
		return "must be more than " + decimal(k.Want)
	case *kind.ExclusiveMaximum:
		return "must be less than " + decimal(k.Want)
	case *kind.MultipleOf:
		return "must be a multiple of " + decimal(k.Want)
	case *kind.MinLength:
		return "must have at least " + plural(k.Want, "character", "characters")
	case *kind.MaxLength:
		return "must have at most " + plural(k.Want, "character", "characters")
	case *kind.MinItems:
		return "must have at least " + plural(k.Want, "entry", "entries")
	case *kind.MaxItems:
		return "must have at most " + plural(k.Want, "entry", "entries")
	case *kind.UniqueItems:
		return "must not have the same entry twice"
	case *kind.Pattern:
		return "does not have the right form"
	default:
	}
	return isNotValid
}

func oneOf(choices []any) string {
	if len(choices) > maxNamed {
		return "must be one of the choices"
	}
	names := make([]string, len(choices))
	for i, choice := range choices {
		names[i] = fmt.Sprint(choice)
	}
	return "must be one of: " + strings.Join(names, ", ")
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// decimal writes a number of a schema with all its digits.
func decimal(n *big.Rat) string {
	digits, _ := n.FloatPrec()
	return n.FloatString(digits)
}
