// Package sim runs several processes of Cairn on one database, under faults, in virtual time, so that one seed gives one
// schedule: a failure that was found once can be looked at as often as one likes.
//
// It is the real committer on the real SQLite driver, inside a bubble of testing/synctest. What makes the schedule repeatable
// (DESIGN.md, section 9) are rules that all code in the bubble keeps:
//
//   - before each interaction an actor sleeps a number of virtual nanoseconds that follows from the seed, the actor and
//     the how-manieth interaction it is ([Actor.Point]), never from a generator that actors share: so at every instant
//     at most one actor is awake, and the runtime has nothing to choose;
//   - no lock is held across an interaction;
//   - no select has two ready cases that lead to different states;
//   - no effect depends on the order of a map;
//   - ids and clocks belong to one actor.
package sim
