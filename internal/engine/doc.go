// Package engine executes runs of dialect engine: it takes those that are due, runs their code, writes down what they do, lets them wait
// without cost, and takes over from processes that died.
//
// A run's code is an ordinary function. Each thing it does through its [Branch] has a memo key; what is in the journal under that key is
// returned instead of being done again. So a run that was interrupted is simply executed from the beginning, and finished steps
// return their recorded results.
//
// # What is written when
//
// An event is kept back until something depends on it: the next effect of the run (the body of a step, a hook that others may use,
// an answer) waits until everything before it is durable. Pure code in between does not wait, so the last step and the end of its run
// share a commit.
//
// # Who executes
//
// Only runs that do something have an owner. When every branch of a run waits, the run is given back with the same commit that records what it
// waits for; its goroutines stay in memory as a cache. Whoever sees that it is due claims it: usually the same process, which then
// goes on where it was.
package engine
