package cairnvet

import (
	"go/ast"
	"go/types"
	"maps"
	"slices"
	"strings"

	"golang.org/x/tools/go/cfg"
)

var (
	lockers = symbols{"sync": "Locker.Lock Mutex.Lock RWMutex.Lock RWMutex.RLock"}
	openers = symbols{"sync": "Locker.Unlock Mutex.Unlock RWMutex.RUnlock RWMutex.Unlock"}
)

// checkLocks reports durable calls while a lock is held: others wait for it as long as the run does, which may be a year, and a run that
// is dropped from memory opens it only if that is deferred.
func (p *rulePass) checkLocks() {
	for cur := range p.root.Preorder((*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)) {
		if !p.workflow[cur.Node()] {
			continue
		}
		switch function := cur.Node().(type) {
		case *ast.FuncDecl:
			p.checkLocksOf(function.Body)
		case *ast.FuncLit:
			p.checkLocksOf(function.Body)
		}
	}
}

func (p *rulePass) checkLocksOf(body *ast.BlockStmt) {
	if body == nil || !p.mentionsLock(body) {
		return
	}
	graph := cfg.New(body, func(*ast.CallExpr) bool { return true })
	held := map[*cfg.Block]lockSet{graph.Blocks[0]: {}}
	// Follow the paths until nothing changes. A lock counts as held where it is held on each of them: who locks and unlocks under the same
	// condition is right, and the graph does not know conditions.
	for queue := []*cfg.Block{graph.Blocks[0]}; len(queue) > 0; queue = queue[1:] {
		after := maps.Clone(held[queue[0]])
		p.execute(queue[0], after, func(*ast.CallExpr) {})
		for _, next := range queue[0].Succs {
			before, seen := held[next]
			if !seen {
				held[next] = maps.Clone(after)
			}
			if !seen || before.keep(after) {
				queue = append(queue, next)
			}
		}
	}
	for _, block := range graph.Blocks {
		if locks, reached := held[block]; reached {
			p.execute(block, locks, func(call *ast.CallExpr) {
				p.found(call, "%s is a durable call while %s is locked: others wait for as long as the run does; unlock before, or keep the lock inside a step",
					shown(call), locks)
			})
		}
	}
}

// lockSet is the locks that are held, as the code writes them.
type lockSet map[string]bool

func (s lockSet) String() string { return strings.Join(slices.Sorted(maps.Keys(s)), ", ") }

// keep removes the locks that others do not have, and reports whether there were any.
func (s lockSet) keep(others lockSet) bool {
	before := len(s)
	maps.DeleteFunc(s, func(lock string, _ bool) bool { return !others[lock] })
	return len(s) < before
}

// execute changes the set as the code of a block does, and calls visit for each durable call while a lock is held.
func (p *rulePass) execute(block *cfg.Block, held lockSet, visit func(*ast.CallExpr)) {
	for _, node := range block.Nodes {
		for _, call := range p.callsNow(node) {
			lock, closes, opens := p.lockOf(call)
			switch {
			case closes:
				held[lock] = true
			case opens:
				delete(held, lock)
			case len(held) > 0 && (p.durable(call) || p.durables[p.literal(call.Fun)]):
				visit(call)
			}
		}
	}
}

// callsNow lists the calls that executing a node does, without those that are done later or in another function.
func (p *rulePass) callsNow(node ast.Node) (calls []*ast.CallExpr) {
	ast.Inspect(node, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.FuncLit, *ast.DeferStmt, *ast.GoStmt:
			return false
		case *ast.CallExpr:
			calls = append(calls, node)
		}
		return true
	})
	return calls
}

// lockOf returns the lock that a call is about, and whether it closes or opens it. Readers have a lock of their own.
func (p *rulePass) lockOf(call *ast.CallExpr) (lock string, closes, opens bool) {
	one := symbolOf(p.callee(call))
	closes, opens = lockers.has(one), openers.has(one)
	method, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !ok || !closes && !opens {
		return "", false, false
	}
	lock = types.ExprString(method.X)
	if strings.HasSuffix(one.name, "RLock") || strings.HasSuffix(one.name, "RUnlock") {
		lock += " (for reading)"
	}
	return lock, closes, opens
}

// mentionsLock is a quick look: most functions have no locks.
func (p *rulePass) mentionsLock(body *ast.BlockStmt) bool {
	return slices.ContainsFunc(p.callsNow(body), func(call *ast.CallExpr) bool {
		_, closes, _ := p.lockOf(call)
		return closes
	})
}
