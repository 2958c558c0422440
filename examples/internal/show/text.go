package show

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cairn-workflow/cairn"
)

// colour is the number of a terminal's colour.
type colour string

const (
	plain  colour = ""
	bold   colour = "1"
	faint  colour = "2"
	red    colour = "31"
	green  colour = "32"
	yellow colour = "33"
	cyan   colour = "36"
)

// span is a piece of text in one colour.
type span struct {
	colour colour
	text   string
}

// textOf says what an error says, in one line.
func textOf(err *cairn.Error) string {
	if err == nil {
		return ""
	}
	return strings.Join(strings.Fields(err.Error()), " ")
}

// Duration writes a time as people read it, in few characters.
func Duration(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	default:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
}

// Bar draws how much of something is done.
func Bar(fraction float64, width int) string {
	full := int(min(max(fraction, 0), 1)*float64(width) + 0.5)
	return strings.Repeat("█", full) + strings.Repeat("░", width-full)
}

// mark is the sign before a row.
func (r *Row) mark() span {
	switch r.State {
	case Done:
		return span{green, "✓"}
	case Failed:
		return span{red, "✗"}
	case Retrying:
		return span{yellow, "↻"}
	case Waiting:
		return span{yellow, "○"}
	case Stopped:
		return span{faint, "–"}
	case Noted:
		return span{yellow, "!"}
	default:
		return span{cyan, "▸"}
	}
}

// label is the name of a row, and the key by which it is known among others of the name.
func (r *Row) label() string {
	branch, own := "", r.Key
	if i := strings.LastIndex(r.Key, "/"+r.Name); i >= 0 {
		branch, own = r.Key[:i], r.Key[i+1:]
	}
	for _, part := range []string{own, branch} {
		if _, key, ok := strings.Cut(part, "@"); ok {
			return r.Name + " " + chosenKey.Replace(key)
		}
	}
	return r.Name
}

// chosenKey shows a key as the program chose it: in the journal, slashes in it are escaped.
var chosenKey = strings.NewReplacer("%2F", "/", "%25", "%")

// clock is how long a row has taken, or takes.
func (r *Row) clock(now time.Time) string {
	switch {
	case r.State == Done || r.State == Failed || r.State == Stopped:
		return Duration(r.Took)
	case r.State == Noted || r.Began.IsZero():
		return ""
	default:
		return Duration(now.Sub(r.Began))
	}
}

// moment says when something will be: the time of day, or how long from now if people watch.
type moment func(t time.Time) (until, next string)

func fromNow(now time.Time) moment {
	return func(t time.Time) (until, next string) {
		left := Duration(t.Sub(now))
		return left + " left", "next in " + left
	}
}

func ofDay(t time.Time) (until, next string) {
	clock := t.Local().Format(time.TimeOnly)
	return "until " + clock, "next at " + clock
}

// remark is what is said about a row behind its time.
func (r *Row) remark(when moment) string {
	until, next := when(r.Until)
	var parts []string
	if r.State == Working && r.Fraction > 0 {
		parts = append(parts, fmt.Sprintf("%s %3.0f%%", Bar(r.Fraction, 12), 100*r.Fraction))
	}
	switch {
	case r.State == Retrying:
		parts = append(parts, fmt.Sprintf("attempt %d failed, %s", r.Attempts, next))
	case r.State == Working && r.Attempts > 1:
		parts = append(parts, fmt.Sprintf("attempt %d", r.Attempts))
	case r.Attempts > 1:
		parts = append(parts, fmt.Sprintf("%d attempts", r.Attempts))
	case r.State == Waiting && !r.Until.IsZero():
		parts = append(parts, until)
	case r.State == Stopped:
		parts = append(parts, "given up")
	}
	if r.Note != "" {
		parts = append(parts, r.Note)
	}
	return strings.Join(parts, " · ")
}

// mark is the sign before the title of a run.
func (r *Run) mark() span {
	switch {
	case parked(r.Info):
		return span{red, "‖"}
	case r.Info.Status == cairn.StatusCompleted:
		return span{green, "✓"}
	case r.Info.Status == cairn.StatusFailed:
		return span{red, "✗"}
	case r.Info.Status == cairn.StatusCancelled:
		return span{yellow, "⊘"}
	default:
		return span{cyan, "●"}
	}
}

// status says how a run is, and what it waits for.
func (r *Run) status() span {
	text := string(r.Info.Status)
	if r.Info.Phase != "" && r.Info.Phase != cairn.PhaseWaiting { // the lines below it say for what
		text = string(r.Info.Phase)
	}
	if r.Info.Status == cairn.StatusFailed {
		text += ": " + textOf(r.Info.Error)
	}
	return span{r.mark().colour, text}
}

// waits says what a run waits for, and what it does: all of it, or things of some kinds.
func (r *Run) waits(kinds ...string) string {
	waiting, doing := map[string]int{}, map[string]int{}
	for _, w := range r.Info.Waits {
		if len(kinds) > 0 && !slices.Contains(kinds, w.Kind) {
			continue
		}
		name := w.Key[strings.LastIndexByte(w.Key, '/')+1:]
		name, _, _ = strings.Cut(name, "#")
		name, _, _ = strings.Cut(name, "@")
		switch w.Kind {
		case "step":
			doing[name]++
		case "retry":
			waiting["retry of "+name]++
		case "timeout", "deadline": // they limit something else
		default:
			waiting[name]++
		}
	}
	var parts []string
	if len(waiting) > 0 {
		parts = append(parts, "waits for "+count(waiting))
	}
	if len(doing) > 0 {
		parts = append(parts, count(doing)+" under way")
	}
	return strings.Join(parts, " · ")
}

func count(names map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if n := names[name]; n > 1 {
			name = fmt.Sprintf("%d × %s", n, name)
		}
		parts = append(parts, name)
	}
	return strings.Join(parts, ", ")
}

// clock is how long a run has taken, or takes.
func (r *Run) clock(now time.Time) string {
	if !r.Info.EndedAt.IsZero() {
		now = r.Info.EndedAt
	}
	return Duration(now.Sub(r.Info.CreatedAt))
}
