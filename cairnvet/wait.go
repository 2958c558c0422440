package cairnvet

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/ast/edge"
	"golang.org/x/tools/go/ast/inspector"
)

// waits are the methods that wait for goroutines.
var waits = symbols{
	"golang.org/x/sync/errgroup":  "Group.Wait",
	"golang.org/x/sync/semaphore": "Weighted.Acquire",
	"sync":                        "Cond.Wait WaitGroup.Wait",
}

// checkWait reports waits that the engine does not know. A run that waits so is never given back; and what it waits for is not there when
// it is executed again in another process.
func checkWait(p *rulePass) {
	p.checkChannels()
	p.checkLocks()
	p.used(func(one symbol, expression ast.Expr) {
		if waits.has(one) {
			p.found(expression, "%s in a workflow is a wait that the engine does not know: use cairn.Future.Wait or cairn.All for branches", one)
		}
	})
}

func (p *rulePass) checkChannels() {
	for cur := range p.root.Preorder((*ast.SendStmt)(nil), (*ast.UnaryExpr)(nil), (*ast.SelectStmt)(nil), (*ast.RangeStmt)(nil)) {
		if what := p.channelUse(cur); what != "" && p.inWorkflow(cur) {
			p.found(cur.Node(), "%s in a workflow is a wait that the engine does not know: use hooks for what comes from outside, branches for what goes on inside", what)
		}
	}
}

// channelUse says how a node waits for a channel, "" if it does not.
func (p *rulePass) channelUse(cur inspector.Cursor) string {
	switch node := cur.Node().(type) {
	case *ast.SendStmt:
		if !partOfSelect(cur) {
			return "sending to a channel"
		}
	case *ast.UnaryExpr:
		if node.Op == token.ARROW && !partOfSelect(cur) && !p.endOfContext(node.X) {
			return "receiving from a channel"
		}
	case *ast.SelectStmt:
		for _, clause := range node.Body.List {
			if clause, ok := clause.(*ast.CommClause); ok && clause.Comm != nil && !p.endsContext(clause.Comm) {
				return "select"
			}
		}
	case *ast.RangeStmt:
		if t := p.info.TypeOf(node.X); t != nil {
			if _, ok := t.Underlying().(*types.Chan); ok {
				return "a loop over a channel"
			}
		}
	}
	return ""
}

// partOfSelect reports whether a send or receive is what a case of a select waits for: the select is the finding then.
func partOfSelect(cur inspector.Cursor) bool {
	for {
		switch cur.ParentEdgeKind() {
		case edge.CommClause_Comm:
			return true
		case edge.ExprStmt_X, edge.AssignStmt_Rhs, edge.ParenExpr_X:
			cur = cur.Parent()
		default:
			return false
		}
	}
}

// endsContext reports whether a case waits for the end of a Context.
func (p *rulePass) endsContext(comm ast.Stmt) bool {
	statement, ok := comm.(*ast.ExprStmt)
	if !ok {
		return false
	}
	receive, ok := ast.Unparen(statement.X).(*ast.UnaryExpr)
	return ok && p.endOfContext(receive.X)
}

// endOfContext reports whether a channel is the Done of a Context, which the engine closes.
func (p *rulePass) endOfContext(channel ast.Expr) bool {
	call, ok := ast.Unparen(channel).(*ast.CallExpr)
	if !ok {
		return false
	}
	method, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	return ok && method.Sel.Name == "Done" && isWorkflowContext(p.info.TypeOf(method.X))
}
