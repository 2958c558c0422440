package torture

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// Report is what a torture did and found.
type Report struct {
	Store string
	Seed  uint64
	For   time.Duration // that processes were hurt: shorter than was asked for if somebody interrupted it
	Mixed bool          // two versions worked together

	Kills    int64 // kill -9, of workers and clients
	Stops    int64 // workers that stood still for longer than the lease
	Ends     int64 // workers that were stopped in an orderly way
	Restarts int64 // of the server, orderly or not
	Cuts     int64 // connections that were ended
	Fulls    int64 // times that the disk was full
	NotFull  error // why it never was

	Runs         int64
	Events       int64
	Steps        int64 // with an outcome
	Starts       int64 // that were acknowledged
	Sends        int64 // that were acknowledged
	Entered      int64 // starts in transactions of clients
	Forks        int64 // that were acknowledged
	Deaths       int64 // processes that their peers declared dead
	LeasesLost   int64 // processes that found that they were declared dead, or might be
	Mistaken     int64 // runs that were parked because of a mistake in the code of their program, and resumed by hand
	Poisoned     int64 // runs that were parked because their processes died, and resumed
	Effects      int64 // bodies of steps that were begun
	Repeated     int64 // of those, with the run, step and attempt of another one
	OtherEffects int64 // of those, by workers of the other version
	Zombies      int64 // of those, by a process that had stood still, after another one had recorded the outcome

	Audited  bool // to the end: else that there are no findings says nothing
	Findings []string
	Kept     string // where everything is, if something was found
}

// Table writes reports as a table in Markdown: a row for each number, a column for each report.
func Table(w io.Writer, reports ...*Report) error {
	t := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	row := func(name string, cell func(*Report) any) {
		fmt.Fprintf(t, "| %s", name)
		for _, r := range reports {
			fmt.Fprintf(t, "\t| %v", cell(r))
		}
		fmt.Fprintln(t, "\t|")
	}
	row("store", func(r *Report) any { return r.Store })
	fmt.Fprint(t, "|---")
	for range reports {
		fmt.Fprint(t, "\t|---")
	}
	fmt.Fprintln(t, "\t|")
	row("seed", func(r *Report) any { return r.Seed })
	row("minutes", func(r *Report) any { return fmt.Sprintf("%.1f", r.For.Minutes()) })
	row("two versions", func(r *Report) any { return map[bool]string{true: "yes", false: "no"}[r.Mixed] })
	row("processes killed (-9)", func(r *Report) any { return r.Kills })
	row("processes stopped past the lease", func(r *Report) any { return r.Stops })
	row("orderly restarts of workers", func(r *Report) any { return r.Ends })
	row("server restarted or crashed", func(r *Report) any { return r.Restarts })
	row("connections cut", func(r *Report) any { return r.Cuts })
	row("disk full", func(r *Report) any {
		if r.NotFull != nil {
			return fmt.Sprintf("not possible here (%v)", r.NotFull)
		}
		return r.Fulls
	})
	row("runs", func(r *Report) any { return r.Runs })
	row("events", func(r *Report) any { return r.Events })
	row("steps with an outcome", func(r *Report) any { return r.Steps })
	row("starts acknowledged", func(r *Report) any { return r.Starts })
	row("sends acknowledged", func(r *Report) any { return r.Sends })
	row("starts in a client's transaction", func(r *Report) any { return r.Entered })
	row("forks acknowledged", func(r *Report) any { return r.Forks })
	row("processes declared dead by peers", func(r *Report) any { return r.Deaths })
	row("processes that went on as new ones", func(r *Report) any { return r.LeasesLost })
	row("runs parked by a mistake, resumed", func(r *Report) any { return r.Mistaken })
	row("runs parked as poison, resumed", func(r *Report) any { return r.Poisoned })
	row("bodies begun", func(r *Report) any { return r.Effects })
	row("of those, repeated", func(r *Report) any { return r.Repeated })
	row("of those, by the other version", func(r *Report) any { return r.OtherEffects })
	row("of those, by zombies", func(r *Report) any { return r.Zombies })
	row("findings", func(r *Report) any {
		switch {
		case r.Audited:
			return len(r.Findings)
		case len(r.Findings) > 0:
			return fmt.Sprintf("%d, and nothing was audited", len(r.Findings))
		default:
			return "nothing was audited"
		}
	})
	return t.Flush()
}

// shown is how many findings are printed.
const shown = 20

// Print writes the findings for people.
func (r *Report) Print(w io.Writer) {
	for i, finding := range r.Findings {
		if i == shown {
			fmt.Fprintf(w, "%s: and %d more\n", r.Store, len(r.Findings)-shown)
			break
		}
		fmt.Fprintf(w, "%s: FOUND %s\n", r.Store, finding)
	}
	if r.Kept != "" {
		fmt.Fprintf(w, "%s: everything is kept in %s\n", r.Store, r.Kept)
	}
}
