package payload

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/fxamacker/cbor/v2"
)

// tagDecimal stands before the text of a number that is neither whole nor what a float64 is printed as, such as
// 0.12345678901234567890. It is stored, and never changes.
const tagDecimal = 0x63616972

// decimalHead is tagDecimal as CBOR.
var decimalHead = string(appendHead(nil, kindTag, tagDecimal))

// maxExpanded is how many digits a whole number with an exponent may have to be stored as a whole number.
const maxExpanded = 400

// numberOf returns a number of JSON as what is stored for it: an int64 or *big.Int if it is whole, a float64 if that
// is printed with the same digits, else a tagged text. What it returns follows from the value as it is printed again,
// so a json.RawMessage that is read and stored again has the same bytes.
func numberOf(text string) any {
	if !strings.ContainsAny(text, ".eE") {
		return wholeNumber(text)
	}
	d := decimalOf(text)
	whole, expanded := d.expand()
	if expanded {
		if i, ok := whole.(*big.Int); !ok || i.BitLen() <= 64 {
			return whole
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	if err == nil && d.valid && decimalOf(strconv.FormatFloat(f, 'e', -1, 64)) == d {
		return f
	}
	if expanded {
		return whole
	}
	return cbor.Tag{Number: tagDecimal, Content: text}
}

func wholeNumber(digits string) any {
	if i, err := strconv.ParseInt(digits, 10, 64); err == nil {
		return i
	}
	i, _ := new(big.Int).SetString(digits, 10)
	return i
}

// decimal is a number as digits without zeros at either end, and the power of ten that they are multiplied with.
type decimal struct {
	negative bool
	digits   string
	exponent int64
	valid    bool // false: the exponent is absurd
}

func decimalOf(text string) decimal {
	text, negative := strings.CutPrefix(text, "-")
	mantissa, exponent := text, int64(0)
	valid := true
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		var err error
		exponent, err = strconv.ParseInt(text[at+1:], 10, 32)
		mantissa, valid = text[:at], err == nil
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	all := strings.TrimLeft(whole+fraction, "0")
	digits := strings.TrimRight(all, "0")
	if digits == "" {
		return decimal{valid: true}
	}
	return decimal{negative, digits, exponent - int64(len(fraction)) + int64(len(all)-len(digits)), valid}
}

// expand returns the number without exponent, if it is whole and not absurdly long.
func (d *decimal) expand() (whole any, ok bool) {
	if !d.valid || d.exponent < 0 || int64(len(d.digits))+d.exponent > maxExpanded {
		return nil, false
	}
	sign := ""
	if d.negative {
		sign = "-"
	}
	return wholeNumber(sign + d.digits + strings.Repeat("0", int(d.exponent)) + zeroIfEmpty(d.digits)), true
}

func zeroIfEmpty(digits string) string {
	if digits == "" {
		return "0"
	}
	return ""
}

// dynamicNumber returns a number of JSON as it is in an empty interface.
func dynamicNumber(n json.Number) (any, error) {
	switch v := numberOf(string(n)).(type) {
	case cbor.Tag:
		return nearest(string(n))
	default:
		return v, nil
	}
}

// nearest returns the float64 nearest to a number.
func nearest(text string) (float64, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("the number %.40s is too large for a float64", text)
	}
	return f, nil
}

// floatText returns a float64 as a number of JSON. One that is whole and has more than 64 bits gets an exponent:
// without, it would be read as a whole number.
func floatText(f float64) json.Number {
	if math.Abs(f) >= 1<<64 && f == math.Trunc(f) {
		return json.Number(strconv.FormatFloat(f, 'e', -1, 64))
	}
	text, _ := json.Marshal(f) // it is neither NaN nor infinite
	return json.Number(text)
}

// isNumber reports whether a text is a number of JSON.
func isNumber(text string) bool {
	return text != "" && (text[0] == '-' || text[0] >= '0' && text[0] <= '9') && json.Valid([]byte(text)) &&
		!strings.ContainsAny(text, " \t\r\n")
}
