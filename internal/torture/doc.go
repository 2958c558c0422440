// Package torture runs real processes on one real database, hurts them, and then reads everything that is left and asks whether the promises were kept.
//
// # Who is there
//
// The orchestrator ([Run]) owns a directory, a database and the processes. Workers are processes with an engine that execute runs. Clients are
// processes that start runs, answer their hooks, read their streams, pause, cancel and terminate them. All three are one program, which executes itself
// again with another first argument; a second program (an earlier version, say) can take half of the places of the workers.
//
// # What follows from the seed
//
// The orders of the clients ([orderOf]): each is a journey of legs, and each leg is one primitive. What a journey returns follows from its order
// alone, whatever happens to its processes. And the blows ([blowsOf]): which place is hit how, and when. When exactly a blow lands in the life of a run does
// not follow from the seed: these are real processes, and one seed does not give one schedule.
//
// # What is written down outside of the database
//
// Everybody has a diary of his own, a file of JSON lines. A client announces what it is about to ask for, and notes what it was told: so a request is
// acknowledged, refused, never asked, or, where only the announcement is there, one of which nothing can be said. Lines of clients are synced. A step notes
// when its effect begins and when it has ended, with its run, key, attempt and idempotency key.
//
// # The end
//
// When its time is over, the orchestrator makes everything whole again, lets the clients finish what they have started, waits until all runs have
// ended, stops the workers in an orderly way, and holds the diaries against the database ([audit]).
//
// Everything ends with the orchestrator: on Linux the kernel kills the processes with the one that started them, and the small file system that can be full lives in
// a mount namespace of its own.
package torture
