// Package enginesim runs several engines on one database, with random workflows and random clients, under faults at every point where an engine meets
// its database, in virtual time; and checks what they did.
//
// Everything that a simulation does beside the code under test stands in a [Plan], which follows from the seed: which runs are started, what the clients ask
// for and when, which engine dies, freezes or sees its clock jump, and what happens at the n-th interaction of which engine. A plan that fails is
// shrunk by leaving parts of it out ([Shrink]).
//
// One seed gives one trace, byte for byte. The runtime chooses at random among timers of one instant, ready cases of a
// select and, in race builds, goroutines. So only one goroutine acts at each instant of virtual time: one that was just
// started or woken takes a turn (package turn) before it does anything that others could notice. A change that adds a
// goroutine to the engine, or a wait that several goroutines can leave at once, adds a turn.
//
// Between the database and an engine stand, from below: the planted bug, if there is one ([Options.Break]); the witness, who sees what is really written
// and by whom; the faults.
package enginesim
