package cairnvet

import "go/ast"

// checkDeferred reports durable calls in deferred functions. Those also run when a run that waits is dropped from memory, and
// nothing that they do then is recorded. The functions that WithTimeout and Cleanup return are no durable calls.
func checkDeferred(p *rulePass) {
	for cur := range p.root.Preorder((*ast.DeferStmt)(nil)) {
		if !p.inWorkflow(cur) {
			continue
		}
		statement, _ := cur.Node().(*ast.DeferStmt)
		// The arguments, and what gives the function, are evaluated at once: only the call itself is deferred.
		literal, written := ast.Unparen(statement.Call.Fun).(*ast.FuncLit)
		if !written || !p.inline(literal) {
			if p.durable(statement.Call) {
				p.deferred(statement.Call)
			}
			continue
		}
		for _, call := range p.durableCalls(literal.Body) {
			p.deferred(call)
		}
	}
}

func (p *rulePass) deferred(call *ast.CallExpr) {
	p.found(call, "%s is a durable call in a deferred function, which also runs when the run is dropped from memory: "+
		"call it before the function returns, with a Context of cairn.Cleanup if it must be done after a cancel too", shown(call))
}
