package cli

import (
	"fmt"
	"strings"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	checks "github.com/cairn-workflow/cairn/internal/store/check"
)

// The outcomes of a check.
const (
	statusOK   = "ok"
	statusWarn = "warn"
	statusFail = "fail"
)

// shownDifferences is how many differences people see; programs get more.
const shownDifferences = 20

// check is one line of the report.
type check struct {
	Name    string        `json:"name"`
	Status  string        `json:"status"`
	Message string        `json:"message"`
	Code    cairnerr.Code `json:"code,omitempty"`
	Next    string        `json:"next,omitempty"`
}

// report is the whole answer, as programs get it.
type report struct {
	OK          bool         `json:"ok"`
	Store       string       `json:"store"`
	Checks      []check      `json:"checks"`
	Views       *viewCounts  `json:"views,omitempty"`
	Differences []difference `json:"differences,omitempty"`
	sentences   []string
}

// viewCounts say how much was compared.
type viewCounts struct {
	Namespaces  int   `json:"namespaces"`
	Runs        int   `json:"runs"`
	Events      int64 `json:"events"`
	Differing   int   `json:"differing"`
	Differences int   `json:"differences"`
	Unknown     int   `json:"unknown"`
	Moving      int   `json:"moving"`
}

// difference is one point in which a view differs from its journal.
type difference struct {
	Namespace string `json:"namespace"`
	Run       string `json:"run"`
	Where     string `json:"where"`
	Field     string `json:"field,omitempty"`
	Stored    string `json:"stored"`
	Journal   string `json:"journal,omitempty"`
}

func (r *report) setViews(found *checks.Report) {
	r.Views = &viewCounts{
		Namespaces: found.Namespaces, Runs: found.Runs, Events: found.Events, Differing: found.Differing, Differences: found.Found,
		Unknown: found.Unknown, Moving: found.Moving,
	}
	for _, d := range found.Differences {
		r.Differences = append(r.Differences, difference{
			Namespace: d.Namespace, Run: journal.PrefixRun.Format(d.Run), Where: d.Where, Field: d.Field, Stored: d.Stored, Journal: d.Folded,
		})
		if len(r.sentences) < shownDifferences {
			r.sentences = append(r.sentences, d.String())
		}
	}
}

func (d *doctor) ok(name, message string) {
	d.add(check{Name: name, Status: statusOK, Message: message})
}

func (d *doctor) fail(name string, err error) {
	d.add(check{Name: name, Status: statusFail, Message: err.Error(), Code: cairnerr.CodeOf(err), Next: advice(err)})
}

// add notes a check, and shows it to people at once.
func (d *doctor) add(c check) {
	d.report.Checks = append(d.report.Checks, c)
	if d.asJSON {
		return
	}
	const indent = "                  "
	label := map[string]string{
		statusOK: d.system.paint(green, "ok  "), statusWarn: d.system.paint(yellow, "warn"), statusFail: d.system.paint(red, "FAIL"),
	}[c.Status]
	out := d.system.Out
	fmt.Fprintf(out, "%s  %-10s  %s\n", label, c.Name, oneLine(c.Message))
	if c.Name == "views" && c.Status == statusFail {
		for _, sentence := range d.report.sentences {
			fmt.Fprintln(out, indent+oneLine(sentence))
		}
		if more := d.report.Views.Differences - len(d.report.sentences); more > 0 {
			fmt.Fprintf(out, "%sand %s: --json shows up to 1000\n", indent, amount(more, "more difference"))
		}
		d.report.sentences = nil // shown once
	}
	if c.Next != "" {
		fmt.Fprintf(out, "%s%s %s\n", indent, d.system.paint(faint, "next:"), c.Next)
	}
}

// oneLine keeps what others wrote from making up lines of its own.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
}

// finish ends the report.
func (d *doctor) finish() error {
	count := map[string]int{}
	for _, c := range d.report.Checks {
		count[c.Status]++
	}
	problems, warnings := count[statusFail], count[statusWarn]
	d.report.OK = problems == 0
	if d.asJSON {
		if err := writeJSON(d.system.Out, &d.report); err != nil {
			return err
		}
	} else {
		fmt.Fprintln(d.system.Out, "\n"+summary(problems, warnings))
	}
	if problems > 0 {
		return errProblems
	}
	return nil
}

func summary(problems, warnings int) string {
	switch {
	case problems+warnings == 0:
		return "All is well."
	case problems == 0:
		return "No problems, " + amount(warnings, "warning") + "."
	case warnings == 0:
		return amount(problems, "problem") + " found."
	default:
		return amount(problems, "problem") + " found, " + amount(warnings, "warning") + "."
	}
}
