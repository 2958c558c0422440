package cairnvet

import (
	"fmt"
	"slices"

	"golang.org/x/tools/go/analysis"
)

// The names of the rules. They stand in comments of users' code, so they never change.
const (
	ruleGoroutine     = "goroutine"
	ruleTime          = "time"
	ruleRandom        = "random"
	ruleMapOrder      = "maporder"
	ruleLoopKey       = "loopkey"
	ruleWait          = "wait"
	ruleSharedContext = "sharedcontext"
	ruleDeferred      = "deferred"
	ruleImpure        = "impure"
	ruleIgnore        = "ignore"
)

// ignorable are the rules that a comment can switch off. It is a list of its own because the analyzers refer to it.
var ignorable = []string{
	ruleGoroutine, ruleTime, ruleRandom, ruleMapOrder, ruleLoopKey, ruleWait, ruleSharedContext, ruleDeferred, ruleImpure,
}

var analyzers = []*analysis.Analyzer{
	newAnalyzer(ruleGoroutine, "find goroutines that a workflow starts without the engine", checkGoroutines),
	newAnalyzer(ruleTime, "find clocks and timers in workflows that are not the run's", checkTime),
	newAnalyzer(ruleRandom, "find randomness in workflows that is not the run's", checkRandom),
	newAnalyzer(ruleMapOrder, "find durable calls in the order of a map", checkMapOrder),
	newAnalyzer(ruleLoopKey, "find durable calls that a loop repeats without a key", checkLoopKey),
	newAnalyzer(ruleWait, "find waits in workflows that the engine does not know: channels, groups, and locks held across durable calls", checkWait),
	newAnalyzer(ruleSharedContext, "find branches and steps that use the cairn.Context of the workflow around them", checkSharedContext),
	newAnalyzer(ruleDeferred, "find durable calls in deferred functions", checkDeferred),
	newAnalyzer(ruleImpure, "find files, networks, processes and the environment in workflows outside steps", checkImpure),
	newAnalyzer(ruleIgnore, "find cairnvet:ignore comments without a rule or a reason", checkIgnores),
}

// Analyzers returns all rules, for drivers such as multichecker or a plugin of golangci-lint.
func Analyzers() []*analysis.Analyzer { return slices.Clone(analyzers) }

// rulePass is one rule on one package.
type rulePass struct {
	*code
	rule   string
	report func(analysis.Diagnostic)
}

func newAnalyzer(name, doc string, check func(*rulePass)) *analysis.Analyzer {
	return &analysis.Analyzer{
		Name:     name,
		Doc:      doc,
		Requires: []*analysis.Analyzer{codeAnalyzer},
		Run: func(pass *analysis.Pass) (any, error) {
			check(&rulePass{code: pass.ResultOf[codeAnalyzer].(*code), rule: name, report: pass.Report})
			return nil, nil
		},
	}
}

// found reports a violation, unless a comment says that it is meant. The rule's name is part of the message, because drivers do not show it
// and who ignores needs it.
func (p *rulePass) found(place analysis.Range, format string, args ...any) {
	if p.ignores.hide(p.rule, place.Pos()) {
		return
	}
	p.report(analysis.Diagnostic{
		Pos:      place.Pos(),
		End:      place.End(),
		Category: p.rule,
		Message:  fmt.Sprintf(format, args...) + " [" + p.rule + "]",
	})
}
