// Package storetest is the suite that every store passes: the promises in the comments of package store, as tests.
//
// A store's own tests call [Run] with a [Factory]. There are no exceptions for single stores: what one of them cannot do is not
// promised.
package storetest

import (
	"testing"

	"github.com/cairn-workflow/cairn/internal/store"
)

// Factory makes the stores that the suite tests.
type Factory struct {
	// Open opens a store on a new, empty database, and closes it when the test ends.
	Open func(t *testing.T) store.Store
	// Again opens the database of a store once more, as another process would. A database that nobody else can reach gives
	// the same store.
	Again func(t *testing.T, first store.Store) store.Store
	// Ways are the ways in which a user can begin transactions of his own on a store's database, by their names. A database that nobody else
	// can reach has none.
	Ways map[string]func(t *testing.T, s store.Store) UserTransaction
	// Rows counts the rows of each table of a store's database, past the store. A database that nobody else can reach
	// has no such function.
	Rows func(t *testing.T, s store.Store) map[string]int
}

// UserTransaction is a transaction of a user's own.
type UserTransaction struct {
	Tx               store.UserTx
	Commit, Rollback func() error
}

// area is a group of tests that share a store. Each test has a namespace and a writer of its own.
type area struct {
	name  string
	tests []test
}

type test struct {
	name string
	run  func(*bench)
}

// Run runs the whole suite.
func Run(t *testing.T, f Factory) {
	t.Helper()
	areas := []area{
		{"Aliasing", aliasingTests},
		{"Delete", deleteTests},
		{"Due", dueTests},
		{"Events", eventTests},
		{"Heads", headTests},
		{"Hooks", hookTests},
		{"Join", joinTests},
		{"Lease", leaseTests},
		{"Logs", logTests},
		{"Messages", messageTests},
		{"Namespaces", namespaceTests},
		{"Notifier", notifierTests},
		{"Paging", pagingTests},
		{"Races", raceTests},
		{"Random", randomTests},
		{"Runs", runTests},
		{"Search", searchTests},
		{"Steps", stepTests},
		{"Store", storeTests},
		{"Streams", streamTests},
		{"Text", textTests},
		{"Waits", waitTests},
		{"Writer", writerTests},
	}
	for _, a := range areas {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			s := f.Open(t)
			for _, test := range a.tests {
				t.Run(test.name, func(t *testing.T) {
					t.Parallel()
					test.run(newBench(t, f, s))
				})
			}
		})
	}
}
