package cairnvet

import "go/ast"

// clocks are the functions of package time that read the clock of the machine or wait for it, and what a workflow uses instead.
var clocks = map[string]string{
	"Now":       "cairn.Now(ctx)",
	"Since":     "cairn.Now(ctx).Sub(t)",
	"Until":     "t.Sub(cairn.Now(ctx))",
	"Sleep":     "cairn.Sleep(ctx, d)",
	"After":     "cairn.Sleep(ctx, d), in a branch if other things go on meanwhile",
	"NewTimer":  "cairn.Sleep(ctx, d), in a branch if other things go on meanwhile",
	"Tick":      "a loop with cairn.Sleep(ctx, d)",
	"NewTicker": "a loop with cairn.Sleep(ctx, d)",
	"AfterFunc": "cairn.Go with a branch that begins with cairn.Sleep(ctx, d)",
}

// deadlines limit a context by the clock of the machine.
var deadlines = symbols{"context": "WithDeadline WithDeadlineCause WithTimeout WithTimeoutCause"}

// checkTime reports clocks and timers that begin anew each time that the workflow is executed.
func checkTime(p *rulePass) {
	p.used(func(one symbol, expression ast.Expr) {
		if instead := clocks[one.name]; one.path == "time" && instead != "" {
			p.found(expression, "%s in a workflow is different when it is executed again: use %s", one, instead)
		}
	})
	for cur := range p.root.Preorder((*ast.CallExpr)(nil)) {
		call, _ := cur.Node().(*ast.CallExpr)
		one := symbolOf(p.callee(call))
		if deadlines.has(one) && len(call.Args) > 0 && isWorkflowContext(p.info.TypeOf(call.Args[0])) && p.inWorkflow(cur) {
			p.found(call.Fun, "%s in a workflow begins anew when it is executed again: use cairn.WithTimeout(ctx, d)", one)
		}
	}
}
