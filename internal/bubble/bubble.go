// Package bubble runs tests in virtual time.
package bubble

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
)

// one keeps bubbles of race builds from running beside each other.
var one sync.Mutex

// Run runs a test in a bubble of package [testing/synctest].
//
// With the race detector it uses one processor meanwhile: in Go 1.26, channel timers of a bubble that fire on two processors at the same time now and
// then fail a check inside the detector ("tsan_rtl.cpp: CHECK failed … kEpochLast"), which ends the program.
func Run(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	if Race {
		one.Lock()
		defer one.Unlock()
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	}
	synctest.Test(t, test)
}
