package cairnerr

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"strconv"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"github.com/stretchr/testify/require"
)

const codeCardDeclined Code = "card_declined"

var errCardDeclined = &Error{Code: codeCardDeclined}

func TestErrorMatchesAfterRoundTrip(t *testing.T) {
	t.Parallel()
	original := Errorf(codeCardDeclined, "no money: %w", io.EOF).With("card", "1234")
	original.Stack, original.Retryable = "main.go:1", true
	require.ErrorIs(t, original, errCardDeclined)
	require.ErrorIs(t, original, io.EOF, "the cause matches in the same process")
	require.ErrorIs(t, fmt.Errorf("wrapped: %w", original), errCardDeclined)

	recorded, err := cbor.Marshal(original)
	require.NoError(t, err)
	replayed := &Error{}
	require.NoError(t, cbor.Unmarshal(recorded, replayed))

	wire, err := json.Marshal(original)
	require.NoError(t, err)
	for _, back := range []*Error{replayed, ReadError(wire)} {
		require.ErrorIs(t, back, errCardDeclined)
		require.NotErrorIs(t, back, io.EOF)
		require.NotErrorIs(t, back, &Error{Code: CodeInternal})
		require.Equal(t, &Error{Code: codeCardDeclined, Message: "no money: EOF", Stack: "main.go:1", Retryable: true, Details: map[string]string{"card": "1234"}}, back)
	}
	require.Equal(t, "card_declined: no money: EOF", replayed.Error())
	require.Equal(t, 500, replayed.Status(), "a user's code says nothing about the request")
}

func TestErrorsWithoutCodeDoNotMatch(t *testing.T) {
	t.Parallel()
	plain := &Error{Message: "a"}
	require.NotErrorIs(t, ReadError([]byte("a")), plain)
	require.Equal(t, "a", (&Error{Message: "a"}).Error())
	require.Equal(t, CodeInternal, CodeOf(&Error{Message: "a"}))
	require.Equal(t, CodeInternal, CodeOf(io.EOF))
	require.Equal(t, Code(""), CodeOf(nil))
	require.Nil(t, AsError(nil))
	require.Equal(t, CodeInternal, AsError(io.EOF).Code)
	require.ErrorIs(t, AsError(io.EOF), io.EOF)
	require.Equal(t, codeCardDeclined, AsError(fmt.Errorf("x: %w", errCardDeclined)).Code)
}

func TestReadError(t *testing.T) {
	t.Parallel()
	for stored, want := range map[string]*Error{
		``:                               nil,
		`null`:                           nil,
		`boom`:                           {Message: "boom"},
		`"boom"`:                         {Message: "boom"},
		`{"message":"boom","code":"E1"}`: {Message: "boom", Code: "E1"},
		`{"code":"E1"}`:                  {Code: "E1"},
		`{"other":1}`:                    {Message: `{"other":1}`},
		`{"message":7}`:                  {Message: `{"message":7}`},
		`{broken`:                        {Message: `{broken`},
		`42`:                             {Message: "42"},
		`Error: it said "no"`:            {Message: `Error: it said "no"`},
	} {
		require.Equal(t, want, ReadError([]byte(stored)), stored)
	}
}

func TestWithDoesNotAlias(t *testing.T) {
	t.Parallel()
	base := Errorf(CodeTooEarly, "wait").With("a", "1")
	first, second := base.With("b", "2"), base.With("b", "3")
	require.Equal(t, map[string]string{"a": "1"}, base.Details)
	require.Equal(t, map[string]string{"a": "1", "b": "2"}, first.Details)
	require.Equal(t, map[string]string{"a": "1", "b": "3"}, second.Details)
	require.Nil(t, Errorf(CodeTooEarly, "x").Details)
}

// A code without a status would be answered as an internal error.
func TestEveryCodeHasAStatus(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "cairnerr.go", nil, 0)
	require.NoError(t, err)
	texts := map[Code]string{}
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, spec := range group.Specs {
			value := spec.(*ast.ValueSpec)
			if kind, ok := value.Type.(*ast.Ident); !ok || kind.Name != "Code" {
				continue
			}
			name := value.Names[0].Name
			text, err := strconv.Unquote(value.Values[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			code := Code(text)
			require.Regexp(t, `^[a-z][a-z_]*$`, text)
			require.NotContains(t, texts, code, "%s and %s are the same code", name, texts[code])
			texts[code] = name
			status, ok := httpStatus[code]
			require.True(t, ok, "%s has no HTTP status", name)
			require.True(t, status >= 400 && status < 600, "%s", name)
			require.Equal(t, status, code.Status())
		}
	}
	require.Len(t, texts, len(httpStatus), "the table has a code that is no constant")
	require.Greater(t, len(texts), 30, "the constants were not found")
}
