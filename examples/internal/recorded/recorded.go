// Package recorded keeps runs of the examples in their testdata folders, and holds the code against them: whoever changes an example, or the engine,
// learns whether runs that were started before can go on. Only tests import it.
//
// What is recorded stays: a file is never overwritten. "make record" adds what is missing. When an example changes such that an old
// run cannot go on, that is a decision: give the scenario a new name and keep the old file as long as old runs matter, or remove the file and record
// it anew.
package recorded

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/cairntest"
)

var record = flag.Bool("record", false, "record the runs that are not in testdata yet; it overwrites none")

// Scenario plays a run up to the moment that is kept, and returns its id.
type Scenario func(e *cairntest.Env) (runID string)

// Replay replays all runs in testdata. Each scenario must be there, as a file of its name; with -record those that are missing are recorded first.
func Replay(t *testing.T, workflows []cairn.Definition, scenarios map[string]Scenario) {
	t.Helper()
	for name, play := range scenarios {
		file := filepath.Join("testdata", name+".jsonl")
		_, err := os.Stat(file)
		switch {
		case err == nil:
		case *record:
			if err := os.MkdirAll("testdata", 0o755); err != nil {
				t.Fatal(err)
			}
			cairntest.Run(t, func(e *cairntest.Env) { e.Export(play(e), file) }, workflows...)
			t.Logf("recorded %s", file)
		default:
			t.Errorf("%s is missing: record it with make record, look at it, and keep it", file)
		}
	}
	cairntest.Replay(t, "testdata/*.jsonl", workflows...)
}
