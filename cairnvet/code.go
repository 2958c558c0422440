package cairnvet

import (
	"go/ast"
	"go/types"
	"reflect"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/types/typeutil"
)

// codeAnalyzer finds out, once for all rules, which code of a package is workflow code.
var codeAnalyzer = &analysis.Analyzer{
	Name:       "cairncode",
	Doc:        "find the workflow functions of a package",
	Requires:   []*analysis.Analyzer{inspect.Analyzer},
	ResultType: reflect.TypeFor[*code](),
	Run: func(pass *analysis.Pass) (any, error) {
		c := &code{
			info:     pass.TypesInfo,
			root:     pass.ResultOf[inspect.Analyzer].(*inspector.Inspector).Root(),
			literals: map[*types.Var]*ast.FuncLit{},
			given:    map[*ast.FuncLit][]*ast.CallExpr{},
			started:  map[*ast.FuncLit]bool{},
			workflow: map[ast.Node]bool{},
			durables: map[*ast.FuncLit]bool{},
		}
		c.findLiterals()
		c.findUses()
		c.findWorkflows()
		c.findDurable()
		var err error
		c.ignores, err = readIgnores(pass)
		return c, err
	},
}

// code is what the rules know about a package.
type code struct {
	info     *types.Info
	root     inspector.Cursor
	literals map[*types.Var]*ast.FuncLit      // local variables that hold one function literal and never anything else
	given    map[*ast.FuncLit][]*ast.CallExpr // the calls that a literal is an argument of
	started  map[*ast.FuncLit]bool            // literals that run in a goroutine which is not a branch
	workflow map[ast.Node]bool                // the functions and literals that are workflow code
	durables map[*ast.FuncLit]bool            // literals without a Context of their own that make durable calls
	ignores  ignores
}

// findLiterals resolves variables to the function literals that they hold.
func (c *code) findLiterals() {
	assigned := map[*types.Var]int{}
	assign := func(name, value ast.Expr) {
		id, ok := name.(*ast.Ident)
		if !ok {
			return
		}
		v, ok := c.info.ObjectOf(id).(*types.Var)
		if !ok || v.Kind() != types.LocalVar {
			return
		}
		assigned[v]++
		if literal, ok := value.(*ast.FuncLit); ok {
			c.literals[v] = literal
		}
	}
	for cur := range c.root.Preorder((*ast.AssignStmt)(nil), (*ast.ValueSpec)(nil)) {
		switch node := cur.Node().(type) {
		case *ast.AssignStmt:
			for i, name := range node.Lhs {
				assign(name, valueAt(node.Rhs, i, len(node.Lhs)))
			}
		case *ast.ValueSpec:
			for i, name := range node.Names {
				if len(node.Values) > 0 {
					assign(name, valueAt(node.Values, i, len(node.Names)))
				}
			}
		}
	}
	for v, count := range assigned {
		if count > 1 {
			delete(c.literals, v)
		}
	}
}

// valueAt is the value that the i-th of several names gets, nil if they all get theirs from one call.
func valueAt(values []ast.Expr, i, names int) ast.Expr {
	if len(values) != names {
		return nil
	}
	return ast.Unparen(values[i])
}

// findUses notes to which calls function literals are given.
func (c *code) findUses() {
	for cur := range c.root.Preorder((*ast.CallExpr)(nil), (*ast.GoStmt)(nil)) {
		switch node := cur.Node().(type) {
		case *ast.GoStmt:
			if literal := c.literal(node.Call.Fun); literal != nil {
				c.started[literal] = true
			}
		case *ast.CallExpr:
			starts := goroutineStarters.has(symbolOf(c.callee(node)))
			for _, argument := range node.Args {
				if literal := c.literal(argument); literal != nil {
					c.given[literal] = append(c.given[literal], node)
					c.started[literal] = c.started[literal] || starts
				}
			}
		}
	}
}

// findWorkflows decides for each function whether it is workflow code. Functions come before those inside them.
func (c *code) findWorkflows() {
	for cur := range c.root.Preorder((*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)) {
		switch function := cur.Node().(type) {
		case *ast.FuncDecl:
			c.workflow[function] = takes(c.info.TypeOf(function.Name), isWorkflowContext)
		case *ast.FuncLit:
			kind := c.info.TypeOf(function)
			switch {
			case takes(kind, isWorkflowContext):
				c.workflow[function] = true
			case takes(kind, isPlainContext), c.started[function], c.givenAway(function):
				c.workflow[function] = false
			default:
				c.workflow[function] = c.inWorkflow(cur.Parent())
			}
		}
	}
}

// givenAway reports whether a literal is given to a function of the user together with a Context: it may be the body of a step that the
// function does, so nothing is known about it.
func (c *code) givenAway(literal *ast.FuncLit) bool {
	for _, call := range c.given[literal] {
		if takes(c.info.TypeOf(call.Fun), isWorkflowContext) && !ofCairn(c.callee(call)) {
			return true
		}
	}
	return false
}

// inWorkflow reports whether the place is workflow code.
func (c *code) inWorkflow(cur inspector.Cursor) bool {
	for function := range cur.Enclosing((*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)) {
		return c.workflow[function.Node()]
	}
	return false
}

// literal returns the function literal that an expression is or stands for, or nil.
func (c *code) literal(expression ast.Expr) *ast.FuncLit {
	switch expression := ast.Unparen(expression).(type) {
	case *ast.FuncLit:
		return expression
	case *ast.Ident:
		if v, ok := c.info.Uses[expression].(*types.Var); ok {
			return c.literals[v]
		}
	}
	return nil
}

// callee returns the function that a call names, or nil.
func (c *code) callee(call *ast.CallExpr) types.Object { return typeutil.Callee(c.info, call) }

// inline reports whether a literal is executed as a part of the workflow function around it, with the Context of that function.
func (c *code) inline(literal *ast.FuncLit) bool {
	return c.workflow[literal] && !takes(c.info.TypeOf(literal), isWorkflowContext)
}

// harmless are the functions that take a Context and neither write nor wait nor count.
var harmless = symbols{cairnPath: "Now ParentID RootID RunID"}

// either are the methods that take any context, and are durable calls when it is a Context.
var either = symbols{cairnPath: "Stream.Close Stream.Flush Stream.Write"}

// durable reports whether a call may do something that the journal has: it takes a Context, or calls a local function that makes such calls.
func (c *code) durable(call *ast.CallExpr) bool {
	if len(call.Args) > 0 && isWorkflowContext(c.info.TypeOf(call.Args[0])) && either.has(symbolOf(c.callee(call))) {
		return true
	}
	if takes(c.info.TypeOf(call.Fun), isWorkflowContext) {
		return !harmless.has(symbolOf(c.callee(call)))
	}
	_, named := ast.Unparen(call.Fun).(*ast.Ident) // what a literal does that is called where it stands is seen there
	return named && c.durables[c.literal(call.Fun)]
}

// findDurable decides which literals make durable calls. They may call each other and themselves, so it goes on until nothing is new.
func (c *code) findDurable() {
	for changed := true; changed; {
		changed = false
		for function := range c.workflow {
			literal, ok := function.(*ast.FuncLit)
			if ok && c.inline(literal) && !c.durables[literal] && len(c.durableCalls(literal.Body)) > 0 {
				c.durables[literal], changed = true, true
			}
		}
	}
}

// durableCalls lists the durable calls that are made when the node is executed.
func (c *code) durableCalls(node ast.Node) (calls []*ast.CallExpr) {
	ast.Inspect(node, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.FuncLit:
			return c.inline(node)
		case *ast.CallExpr:
			if c.durable(node) {
				calls = append(calls, node)
			}
		}
		return true
	})
	return calls
}
