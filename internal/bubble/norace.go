//go:build !race

package bubble

// Race says whether the race detector is on.
const Race = false
