package engine

import "runtime"

// roomy makes the stack of a goroutine large enough for what workflow code does, while there is nothing on it yet. Otherwise it grows twice
// on the way to the first step, and each time all the frames that are there by then are walked through and copied: a sixth of what a
// branch costs.
//
//go:noinline
func roomy() {
	var room [5 << 10]byte
	runtime.KeepAlive(&room)
}

// roomyToCommit does so for a goroutine that may commit on its own: the code of SQLite lies deep.
//
//go:noinline
func roomyToCommit() {
	var room [12 << 10]byte
	runtime.KeepAlive(&room)
}
