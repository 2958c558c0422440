package cairnvet

import (
	"go/ast"
	"go/types"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/ast/inspector"
)

const cairnPath = "github.com/cairn-workflow/cairn"

// isWorkflowContext reports whether a type is cairn.Context.
func isWorkflowContext(t types.Type) bool { return isNamed(t, cairnPath, "Context") }

// isPlainContext reports whether a type is context.Context.
func isPlainContext(t types.Type) bool { return isNamed(t, "context", "Context") }

func isNamed(t types.Type, path, name string) bool {
	named, ok := types.Unalias(t).(*types.Named)
	return ok && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == path && named.Obj().Name() == name
}

// takes reports whether a function type has a parameter of some type.
func takes(function types.Type, is func(types.Type) bool) bool {
	if function == nil {
		return false
	}
	signature, ok := function.Underlying().(*types.Signature)
	if !ok {
		return false
	}
	for parameter := range signature.Params().Variables() {
		if is(parameter.Type()) {
			return true
		}
	}
	return false
}

// hasOption reports whether a call has an option of package cairn among its arguments, or options that cannot be seen.
func (c *code) hasOption(call *ast.CallExpr, name string) bool {
	for _, argument := range call.Args {
		if isNamed(c.info.TypeOf(argument), cairnPath, name) {
			return true
		}
	}
	return call.Ellipsis.IsValid()
}

// ofCairn reports whether a function belongs to package cairn.
func ofCairn(object types.Object) bool {
	return object != nil && object.Pkg() != nil && object.Pkg().Path() == cairnPath
}

// majorVersion is the end of an import path that all versions of a package share but for the number.
var majorVersion = regexp.MustCompile(`/v[0-9]+$`)

// symbol is a function, method or variable of a package.
type symbol struct {
	path string // of the package, without the version at its end
	pkg  string // how code calls the package
	name string // "Now", "Client.Do"
}

// String is how code would write it.
func (s symbol) String() string { return s.pkg + "." + s.name }

// symbols are names by import path, with spaces between them.
type symbols map[string]string

func (s symbols) has(one symbol) bool {
	return one.name != "" && slices.Contains(strings.Fields(s[one.path]), one.name)
}

// symbolOf names an object that belongs to a package.
func symbolOf(object types.Object) symbol {
	if object == nil || object.Pkg() == nil {
		return symbol{}
	}
	name := object.Name()
	if function, ok := object.(*types.Func); ok && function.Signature().Recv() != nil {
		receiver := types.Unalias(function.Signature().Recv().Type())
		if pointer, ok := receiver.(*types.Pointer); ok {
			receiver = types.Unalias(pointer.Elem())
		}
		named, ok := receiver.(*types.Named)
		if !ok {
			return symbol{} // a method of an interface without a name
		}
		name = named.Obj().Name() + "." + name
	}
	return symbol{path: majorVersion.ReplaceAllString(object.Pkg().Path(), ""), pkg: object.Pkg().Name(), name: name}
}

// used calls visit for each name of another package, and each method, that workflow code mentions: a function that is passed on will be
// called. The expression is the name with what stands before its dot.
func (c *code) used(visit func(one symbol, expression ast.Expr)) {
	for cur := range c.root.Preorder((*ast.Ident)(nil)) {
		id, _ := cur.Node().(*ast.Ident)
		object := c.info.Uses[id]
		switch object := object.(type) {
		case *types.Func:
		case *types.Var:
			if object.IsField() || object.Kind() != types.PackageVar {
				continue
			}
		default:
			continue
		}
		if one := symbolOf(object); one.name != "" && c.inWorkflow(cur) {
			visit(one, qualified(cur))
		}
	}
}

// qualified returns the selector that an identifier is the end of, or the identifier.
func qualified(cur inspector.Cursor) ast.Expr {
	id, _ := cur.Node().(*ast.Ident)
	if selector, ok := cur.Parent().Node().(*ast.SelectorExpr); ok && selector.Sel == id {
		return selector
	}
	return id
}

// shown is how a message calls the function of a call.
func shown(call *ast.CallExpr) string {
	if _, ok := ast.Unparen(call.Fun).(*ast.FuncLit); ok {
		return "this function"
	}
	return types.ExprString(call.Fun)
}
