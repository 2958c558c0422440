package sim

import (
	"os"
	"strconv"
	"testing"
)

// Number reads a number that somebody asked a simulation for, like SEEDS=1000; 0: nobody did. What is no number is refused: to go on without it would look like what was asked for.
func Number(tb testing.TB, name string) int {
	tb.Helper()
	text := os.Getenv(name)
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		tb.Fatalf("%s=%s: %v", name, text, err)
	}
	return n
}
