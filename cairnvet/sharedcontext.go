package cairnvet

import (
	"go/ast"
	"go/types"

	"golang.org/x/tools/go/ast/inspector"
)

// checkSharedContext reports uses of the Context of the workflow around a branch or the body of a step. Two durable calls at the same time on
// one Context fail the run; and a branch that has lost, or is over its time, would go on.
func checkSharedContext(p *rulePass) {
	for cur := range p.root.Preorder((*ast.Ident)(nil)) {
		id, _ := cur.Node().(*ast.Ident)
		v, ok := p.info.Uses[id].(*types.Var)
		if !ok || !isWorkflowContext(v.Type()) {
			continue
		}
		around, ownContext := p.handedOver(cur)
		if around == nil || around.Pos() <= v.Pos() && v.Pos() < around.End() {
			continue
		}
		switch {
		case !ownContext:
			p.found(id, "%s belongs to the workflow: the body of a step uses the context.Context that it gets", v.Name())
		case !v.IsField(): // nobody knows which Context a field holds
			p.found(id, "%s belongs to the workflow around this branch: a branch uses the Context that it gets", v.Name())
		}
	}
}

// handedOver returns the innermost function literal around a place that Cairn calls, if any, and whether it gets a Context of its own. Those
// that get neither kind of context are called before the function returns that they are given to.
func (c *code) handedOver(cur inspector.Cursor) (literal *ast.FuncLit, ownContext bool) {
	for around := range cur.Enclosing((*ast.FuncLit)(nil)) {
		literal, _ := around.Node().(*ast.FuncLit)
		own := takes(c.info.TypeOf(literal), isWorkflowContext)
		if !own && !takes(c.info.TypeOf(literal), isPlainContext) {
			continue
		}
		for _, call := range c.given[literal] {
			if ofCairn(c.callee(call)) {
				return literal, own
			}
		}
	}
	return nil, false
}
