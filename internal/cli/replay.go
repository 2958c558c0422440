package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/cairn-workflow/cairn/internal/export"
	"github.com/cairn-workflow/cairn/internal/journal"
)

func newReplay(s *System) *cobra.Command {
	var asJSON bool
	command := &cobra.Command{
		Use:   "replay FILE",
		Short: "Describe an exported run, and show how to execute your code against it",
		Long: text(`
			Checks a file that "cairn export" has written, describes it, and shows a Go test that executes your code against it.
			The test does nothing to the world outside, and shows the first place where the code does not do what was recorded.

			The code of your workflows is in your program and not in this one; so the test runs there, under a debugger if you like.`) +
			"\n\n" + exitCodes,
		Example: text(`
			  cairn replay order.jsonl
			  cairn replay order.jsonl --json`),
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			file, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer file.Close() //nolint:errcheck // it was only read
			run, err := export.Read(file)
			if err != nil {
				return err
			}
			answer := newRecorded(args[0], run)
			if asJSON {
				return writeJSON(s.Out, answer)
			}
			answer.print(s)
			return nil
		},
	}
	command.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return command
}

// recorded is what is told about an exported run.
type recorded struct {
	export.Header

	File     string       `json:"file"`
	Created  journal.Time `json:"created"`
	Last     journal.Time `json:"last"`
	Events   int          `json:"events"`
	Steps    int          `json:"steps"`
	Children int          `json:"children"`
	Waits    int          `json:"waits"`
	Hooks    int          `json:"hooks"`
	Test     string       `json:"test,omitempty"`  // Go code
	GoTest   string       `json:"go,omitempty"`    // the command that runs it
	Debug    string       `json:"debug,omitempty"` // the same under a debugger
}

func newRecorded(path string, run *export.Run) *recorded {
	s := &recorded{Header: run.Header, File: path, Events: len(run.Events), Created: run.Events[0].At, Last: run.Events[len(run.Events)-1].At}
	children, steps := map[journal.ID]bool{}, map[journal.ID]bool{}
	for i := range run.Events {
		e := &run.Events[i]
		switch d := e.Data.(type) {
		case *journal.StepCreated:
			steps[e.Entity] = true
			children[e.Entity] = !d.Child.IsZero()
		case *journal.StepStarted, *journal.StepRetrying, *journal.StepCompleted, *journal.StepFailed:
			steps[e.Entity] = true
		case *journal.WaitCreated:
			s.Waits++
		case *journal.HookCreated:
			s.Hooks++
		}
	}
	for id := range steps {
		if children[id] {
			s.Children++
		} else {
			s.Steps++
		}
	}
	if run.Header.Dialect == journal.Engine.String() {
		name := goName(run.Header.Workflow)
		s.Test = testFor(name, run.Header.Workflow, "testdata/"+filepath.Base(path))
		s.GoTest = fmt.Sprintf("go test -run '^TestReplay%s$' .", name)
		s.Debug = fmt.Sprintf("dlv test . -- -test.run '^TestReplay%s$'", name)
	}
	return s
}

// testFor is a Go test, ready to be pasted.
func testFor(name, workflow, file string) string {
	return strings.Join([]string{
		"package yours // the package that the test is in",
		"",
		"import (",
		"\t\"testing\"",
		"",
		"\t\"github.com/cairn-workflow/cairn/cairntest\"",
		")",
		"",
		"func TestReplay" + name + "(t *testing.T) {",
		fmt.Sprintf("\tcairntest.Replay(t, %q, %s) // your workflow %q", file, name, workflow),
		"}",
		"",
	}, "\n")
}

// goName makes a Go name out of the name of a workflow: "count words" becomes CountWords.
func goName(workflow string) string {
	var b strings.Builder
	next := true // a word begins
	for _, r := range workflow {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			next = true
			continue
		case b.Len() == 0 && !unicode.IsLetter(r):
			continue // a name begins with a letter
		case next:
			r = unicode.ToUpper(r)
		}
		next = false
		b.WriteRune(r)
	}
	if b.Len() == 0 {
		return "Workflow"
	}
	return b.String()
}

func (s *recorded) print(system *System) {
	status := s.Status
	if s.Phase != "" {
		status += ", " + s.Phase
	}
	row := func(name, value string) {
		fmt.Fprintf(system.Out, "%s  %s\n", system.paint(faint, fmt.Sprintf("%-8s", name)), value)
	}
	row("run", fmt.Sprintf("%s of workflow %q in namespace %q", s.Run, s.Workflow, s.Namespace))
	row("status", status)
	row("time", fmt.Sprintf("%s, and %s until the last event", s.Created, s.Last.Std().Sub(s.Created.Std()).Round(time.Millisecond)))
	row("journal", s.counts())
	row("file", fmt.Sprintf("format %s %s, written by cairn %s", s.Format, s.Version, s.Cairn))
	if s.Test == "" {
		fmt.Fprintf(system.Out, "\nA run of dialect %s is not executed by Cairn: there is no code to replay.\n", s.Dialect)
		return
	}
	fmt.Fprintln(system.Out, "\nThe code of the workflow is in your program, so it is replayed there. Copy the file into the folder testdata beside your")
	fmt.Fprintf(system.Out, "tests, and paste this:\n\n%s\n", indented(s.Test))
	fmt.Fprintf(system.Out, "Then, in that folder:\n\n  %s\n  %s   # the same under a debugger\n", s.GoTest, s.Debug)
}

// counts says how much there is in the journal.
func (s *recorded) counts() string {
	text, separator := amount(s.Events, "event"), ": "
	for _, part := range []struct {
		n         int
		one, many string
	}{{s.Steps, "step", "steps"}, {s.Children, "child", "children"}, {s.Waits, "wait", "waits"}, {s.Hooks, "hook", "hooks"}} {
		noun := part.many
		if part.n == 1 {
			noun = part.one
		}
		if part.n > 0 {
			text += fmt.Sprintf("%s%d %s", separator, part.n, noun)
			separator = ", "
		}
	}
	return text
}

func indented(block string) string {
	lines := strings.SplitAfter(block, "\n")
	for i, line := range lines {
		if strings.TrimSpace(line) != "" {
			lines[i] = "\t" + line
		}
	}
	return strings.Join(lines, "")
}
