// Package journal is the truth of Cairn: what can happen to a run, and what follows from it.
//
// Everything that happens to a run is an [Event], numbered from 1 without a gap. The rows that people
// look at (runs, steps, hooks, waits, attributes) are views of those events. One function,
// [State.Reduce], decides whether a [Command] is legal and what it changes; [Fold] replays events that were
// accepted before. Both go through the same code, so that the views always equal the fold of the journal.
//
// The package is pure: no input or output, no clock, no goroutine, no randomness. The time and new ids come in with
// the command's [Env]. What lies outside the run (who holds a hook token, which run has a start key)
// comes in as an [Outside].
//
// # Dialects
//
// A run obeys the law of its [Dialect], fixed when it is created. [Engine] runs are executed by Cairn and have
// an owner; [World3] and [World6] runs are executed by a "use workflow" app and follow the World contract,
// where late step results and repeated cancels are accepted. The three legality tables are in rules.go.
//
// # Refusals
//
// What is not legal is refused with an [*Error] that carries a stable [Code]; the code decides the HTTP
// status. A refused command changes nothing.
package journal
