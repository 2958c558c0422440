package pgcluster

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// ErrNotInstalled means that the machine has no PostgreSQL server programs (initdb and postgres).
var ErrNotInstalled = errors.New("pgcluster: PostgreSQL server is not installed (no initdb and postgres found)")

// installed is where the packages of Debian and its relatives put the server programs, which are not on PATH.
const installed = "/usr/lib/postgresql"

// tools are the paths of the server programs.
type tools struct {
	initdb   string
	postgres string
}

// findTools looks on PATH first and then for the highest version below installed.
func findTools() (tools, error) {
	initdb, err := exec.LookPath("initdb")
	if err == nil {
		if postgres, err := exec.LookPath("postgres"); err == nil {
			return tools{initdb: initdb, postgres: postgres}, nil
		}
	}
	return newestTools(installed)
}

// newestTools returns the programs of the highest version that has both, in root/VERSION/bin.
func newestTools(root string) (tools, error) {
	entries, err := os.ReadDir(root)
	if errors.Is(err, os.ErrNotExist) {
		return tools{}, ErrNotInstalled
	}
	if err != nil {
		return tools{}, err
	}
	var best tools
	bestVersion := -1.0
	for _, entry := range entries {
		version, err := strconv.ParseFloat(entry.Name(), 64)
		if err != nil || version <= bestVersion {
			continue
		}
		bin := filepath.Join(root, entry.Name(), "bin")
		found := tools{initdb: filepath.Join(bin, "initdb"), postgres: filepath.Join(bin, "postgres")}
		if executable(found.initdb) && executable(found.postgres) {
			best, bestVersion = found, version
		}
	}
	if bestVersion < 0 {
		return tools{}, ErrNotInstalled
	}
	return best, nil
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}
