//go:build !race

package journal

func raceEnabled() bool { return false }
