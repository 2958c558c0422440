package cairnvet

import (
	"go/ast"
	"go/token"
)

// keyable are the durable calls that can have a cairn.Key, and are found by their position without one.
var keyable = symbols{cairnPath: "Do Go Sleep SleepUntil Hook.Open Hook.Wait Poll.Wait RequestHook.Open Step.Do " +
	"Workflow.Run Workflow.StartChild"}

// loopKeys looks for calls that a loop repeats.
type loopKeys struct {
	*rulePass
	reported map[*ast.CallExpr]bool // a call in two loops is reported once
}

// checkLoopKey reports durable calls in loops that have no key. A loop with a constant number of rounds always repeats
// the same calls.
func checkLoopKey(p *rulePass) {
	l := &loopKeys{p, map[*ast.CallExpr]bool{}}
	for cur := range p.root.Preorder((*ast.ForStmt)(nil), (*ast.RangeStmt)(nil)) {
		if !p.inWorkflow(cur) {
			continue
		}
		switch loop := cur.Node().(type) {
		case *ast.ForStmt:
			l.look(loop.Body, map[*ast.FuncLit]bool{})
		case *ast.RangeStmt:
			if p.info.Types[loop.X].Value == nil {
				l.look(loop.Body, map[*ast.FuncLit]bool{})
			}
		}
	}
}

// look reports the calls in the body of a loop, and in the local functions that it calls.
func (l *loopKeys) look(body *ast.BlockStmt, seen map[*ast.FuncLit]bool) {
	ast.PreorderStack(body, nil, func(node ast.Node, stack []ast.Node) bool {
		if literal, ok := node.(*ast.FuncLit); ok {
			return l.inline(literal)
		}
		call, ok := node.(*ast.CallExpr)
		if !ok || leavesAfter(append(stack, call)) {
			return true
		}
		if literal := l.literal(call.Fun); l.durables[literal] && !seen[literal] {
			seen[literal] = true
			l.look(literal.Body, seen)
		}
		if !l.reported[call] && keyable.has(symbolOf(l.callee(call))) && !l.mayHaveKey(call) {
			l.reported[call] = true
			l.found(call, "%s is repeated without a key: the n-th call is found by its position, "+
				"so an inserted item would get its neighbour's record: give it a cairn.Key", shown(call))
		}
		return true
	})
}

// named are the functions whose second argument is a name. If it is no constant, it can tell the calls apart.
var named = symbols{cairnPath: "Do Go"}

// mayHaveKey reports whether something tells the call from its neighbours.
func (l *loopKeys) mayHaveKey(call *ast.CallExpr) bool {
	if named.has(symbolOf(l.callee(call))) && len(call.Args) > 1 && l.info.Types[call.Args[1]].Value == nil {
		return true
	}
	return l.hasOption(call, "KeyOption")
}

// leavesAfter reports whether a loop always ends after the last node of a path that begins with the body of the loop.
func leavesAfter(path []ast.Node) bool {
	breaks := true // a break without a label means the loop
	for i, node := range path[:len(path)-1] {
		switch node := node.(type) {
		case *ast.FuncLit:
			return false // what comes after it in there ends the function, not the loop
		case *ast.ForStmt, *ast.RangeStmt, *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt:
			breaks = false
		case *ast.BlockStmt:
			if listLeaves(node.List, path[i+1], breaks) {
				return true
			}
		case *ast.CaseClause:
			if listLeaves(node.Body, path[i+1], breaks) {
				return true
			}
		}
	}
	return false
}

// listLeaves reports whether a list of statements always leaves the loop after one of its parts, and does not continue it.
func listLeaves(list []ast.Stmt, part ast.Node, breaks bool) bool {
	for _, statement := range list {
		if statement.End() <= part.Pos() {
			continue
		}
		switch statement := statement.(type) {
		case *ast.ReturnStmt:
			return true
		case *ast.BranchStmt:
			return statement.Tok == token.BREAK && (breaks || statement.Label != nil)
		}
		if continues(statement) {
			return false
		}
	}
	return false
}

// continues reports whether a statement may begin the next round of a loop.
func continues(statement ast.Stmt) (found bool) {
	ast.Inspect(statement, func(node ast.Node) bool {
		branch, ok := node.(*ast.BranchStmt)
		found = found || ok && branch.Tok != token.BREAK
		_, literal := node.(*ast.FuncLit)
		return !literal
	})
	return found
}
