// Package stream reads the streams of runs, and carries what runs write to them to the committer.
//
// A [Hub] serves the readers of one process. Each reads pages by index until it has all that there is, and then waits. It is woken by hints: of
// the same process directly, of others by the store's notifier. Hints can be lost, so everybody who waits also looks from time to time.
// Nothing is kept in memory for a reader but the page that it is at: a slow one holds nobody up.
//
// A [Pipe] is the other side: the chunks of one stream of one run on their way into the database, in the order in which they were
// written, not more than a bounded number at a time.
package stream
