//go:build !linux

package pgcluster

import (
	"fmt"
	"os"
	"os/exec"
)

// isolate does nothing here: only Linux ends a child with its parent.
func isolate(*exec.Cmd) error { return nil }

// giveAway does nothing here: run the tests as an ordinary user.
func giveAway(string) error { return nil }

func makeOwnedDir(parent string) (string, *os.File, error) {
	dir, err := os.MkdirTemp(parent, dirPrefix)
	if err != nil {
		return "", nil, fmt.Errorf("pgcluster: %w", err)
	}
	owner, err := os.CreateTemp(dir, "owner-")
	if err != nil {
		return "", nil, fmt.Errorf("pgcluster: %w", err)
	}
	return dir, owner, nil
}

// removeOrphans does nothing here: without locks a living owner cannot be told from a dead one.
func removeOrphans(string) {}
