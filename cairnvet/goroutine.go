package cairnvet

import "go/ast"

// goroutineStarters run a function that they are given in a goroutine of its own.
var goroutineStarters = symbols{
	"context":                    "AfterFunc",
	"golang.org/x/sync/errgroup": "Group.Go Group.TryGo",
	"sync":                       "WaitGroup.Go",
	"time":                       "AfterFunc",
}

// checkGoroutines reports goroutines that the engine does not know. It gives a run back when all its branches wait, and cannot see that
// these still work; what they do is in no order, and a Context belongs to one goroutine.
func checkGoroutines(p *rulePass) {
	for cur := range p.root.Preorder((*ast.GoStmt)(nil)) {
		if p.inWorkflow(cur) {
			p.found(cur.Node(), "a go statement in a workflow starts what the engine does not know: use cairn.Go, which gives the branch a Context of its own")
		}
	}
	p.used(func(one symbol, expression ast.Expr) {
		if goroutineStarters.has(one) && one.path != "time" { // the rule about time has it
			p.found(expression, "%s in a workflow starts a goroutine that the engine does not know: use cairn.Go, or cairn.Map for many", one)
		}
	})
}
