package cairnvet

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/ast/inspector"
)

// unorderedFunctions give what is in a map in the order of the map.
var unorderedFunctions = symbols{
	"golang.org/x/exp/maps": "Keys Values",
	"maps":                  "All Keys Values",
	"reflect":               "Value.MapKeys",
}

// checkMapOrder reports loops in the order of a map that do durable calls: calls are told apart by being the n-th use of a name, and with
// keys the effects still come in another order.
func checkMapOrder(p *rulePass) {
	order := mapOrder{code: p.code}
	order.findUnsorted()
	for cur := range p.root.Preorder((*ast.RangeStmt)(nil), (*ast.CallExpr)(nil)) {
		if !p.inWorkflow(cur) {
			continue
		}
		switch node := cur.Node().(type) {
		case *ast.RangeStmt:
			if calls := p.durableCalls(node.Body); len(calls) > 0 && order.unordered(node.X) {
				p.found(header{node}, "%s is a durable call in the order of a map, which is different when the workflow is executed again: "+
					"loop over slices.Sorted(maps.Keys(m))", shown(calls[0]))
			}
		case *ast.CallExpr:
			if itemsByPlace.has(symbolOf(p.callee(node))) && len(node.Args) > items && !p.hasOption(node, "KeyByOption") &&
				order.unordered(node.Args[items]) {
				p.found(node.Args[items], "these items are in the order of a map, which is different when the workflow is executed again: "+
					"sort them, or use cairn.KeyBy")
			}
		}
	}
}

// itemsByPlace tells its items apart by their places, unless it has a cairn.KeyBy.
var itemsByPlace = symbols{cairnPath: "Map"}

// items is which argument of it they are.
const items = 2

// header is the part of a loop before its body.
type header struct{ *ast.RangeStmt }

// End is where the body begins.
func (h header) End() token.Pos { return h.X.End() }

// mapOrder knows what in a package is in the order of a map.
type mapOrder struct {
	*code
	unsorted map[*types.Var]bool // slices of workflow code that were filled from a map and never sorted
}

// unordered reports whether iterating over an expression is in the order of a map.
func (m *mapOrder) unordered(expression ast.Expr) bool {
	expression = ast.Unparen(expression)
	if t := m.info.TypeOf(expression); t != nil {
		if _, ok := t.Underlying().(*types.Map); ok {
			return true
		}
	}
	switch expression := expression.(type) {
	case *ast.CallExpr:
		one := symbolOf(m.callee(expression))
		collected := one.path == "slices" && one.name == "Collect" && len(expression.Args) == 1 && m.unordered(expression.Args[0])
		return collected || unorderedFunctions.has(one)
	case *ast.SelectorExpr:
		one := symbolOf(m.info.Uses[expression.Sel])
		return one.path == "sync" && one.name == "Map.Range"
	case *ast.Ident:
		v, ok := m.info.Uses[expression].(*types.Var)
		return ok && m.unsorted[v]
	}
	return false
}

// findUnsorted finds variables that get what is in a map. One that is given to any other function may be sorted by it.
func (m *mapOrder) findUnsorted() {
	m.unsorted = map[*types.Var]bool{}
	for cur := range m.root.Preorder((*ast.AssignStmt)(nil), (*ast.ValueSpec)(nil)) {
		name, value := oneValue(cur.Node())
		if value == nil || !m.inWorkflow(cur) {
			continue
		}
		v := m.local(name)
		if v != nil && (m.unordered(value) || m.appendsInMapOrder(cur, v, value)) {
			m.unsorted[v] = true
		}
	}
	for cur := range m.root.Preorder((*ast.CallExpr)(nil)) {
		call, _ := cur.Node().(*ast.CallExpr)
		callee := m.callee(call)
		if _, builtin := callee.(*types.Builtin); builtin || ofCairn(callee) {
			continue // these sort nothing
		}
		arguments := call.Args
		if method, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr); ok {
			arguments = append(slices.Clone(arguments), method.X)
		}
		for _, argument := range arguments {
			delete(m.unsorted, m.local(argument))
		}
	}
}

// oneValue returns the name and the value of an assignment or declaration that has one of each, else nil.
func oneValue(node ast.Node) (name, value ast.Expr) {
	switch node := node.(type) {
	case *ast.AssignStmt:
		if len(node.Lhs) == 1 && len(node.Rhs) == 1 {
			return node.Lhs[0], node.Rhs[0]
		}
	case *ast.ValueSpec:
		if len(node.Names) == 1 && len(node.Values) == 1 {
			return node.Names[0], node.Values[0]
		}
	}
	return nil, nil
}

// appendsInMapOrder reports whether a value is v with something appended, in a loop over a map that v was there before.
func (m *mapOrder) appendsInMapOrder(cur inspector.Cursor, v *types.Var, value ast.Expr) bool {
	call, ok := ast.Unparen(value).(*ast.CallExpr)
	if !ok || len(call.Args) == 0 || m.local(call.Args[0]) != v {
		return false
	}
	if builtin, ok := m.callee(call).(*types.Builtin); !ok || builtin.Name() != "append" {
		return false
	}
	for around := range cur.Enclosing((*ast.RangeStmt)(nil), (*ast.FuncLit)(nil), (*ast.FuncDecl)(nil)) {
		loop, ok := around.Node().(*ast.RangeStmt)
		if !ok {
			return false
		}
		if v.Pos() < loop.Pos() && m.unordered(loop.X) {
			return true
		}
	}
	return false
}

// local returns the local variable that an expression is, or a part or the address of; else nil.
func (m *mapOrder) local(expression ast.Expr) *types.Var {
	switch expression := ast.Unparen(expression).(type) {
	case *ast.Ident:
		if v, ok := m.info.ObjectOf(expression).(*types.Var); ok && v.Kind() == types.LocalVar {
			return v
		}
	case *ast.SliceExpr:
		return m.local(expression.X)
	case *ast.UnaryExpr:
		return m.local(expression.X)
	case *ast.CallExpr: // a conversion, as in sort.Sort(sort.StringSlice(keys))
		if len(expression.Args) == 1 && m.info.Types[expression.Fun].IsType() {
			return m.local(expression.Args[0])
		}
	}
	return nil
}
