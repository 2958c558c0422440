package show

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// lines writes a line whenever something has changed.
type lines struct {
	out   io.Writer
	o     *Options
	known map[string]string // what was last said about each thing
	batch []entry
}

// entry is a line with the time at which happened what it tells.
type entry struct {
	at   time.Time
	text string
}

func (l *lines) show(runs []*Run, now time.Time) {
	if l.known == nil {
		l.known = map[string]string{}
	}
	for _, r := range runs {
		l.addRun(r, now, 0)
	}
	slices.SortStableFunc(l.batch, func(a, b entry) int { return a.at.Compare(b.at) })
	for _, e := range l.batch {
		fmt.Fprintf(l.out, "%s  %s\n", e.at.Local().Format("15:04:05.0"), e.text)
	}
	l.batch = l.batch[:0]
}

func (l *lines) end(runs []*Run, now time.Time) { l.show(runs, now) }

func (l *lines) addRun(r *Run, now time.Time, indent int) {
	title := strings.Repeat(" ", indent) + l.o.Title(r.Info)
	title += strings.Repeat(" ", max(26-utf8.RuneCountInString(title), 0))
	for _, row := range r.Rows {
		l.addRow(r, row, title)
		if row.Child != nil {
			l.addRun(row.Child, now, indent+2)
		}
	}
	for _, c := range r.Children {
		l.addRun(c, now, indent+2)
	}
	status := r.status().text
	if l.news(r.Info.ID, status) {
		at, took := now, ""
		if !r.Info.EndedAt.IsZero() {
			at, took = r.Info.EndedAt, " after "+r.clock(now)
		}
		l.say(at, title, r.mark(), status+took)
	}
	// All other kinds have a row.
	if w := r.waits("child"); w != "" && l.news(r.Info.ID+" waits", w) {
		l.say(now, title, span{text: "○"}, w)
	}
	if l.o.Hints == nil || !r.Info.EndedAt.IsZero() {
		return
	}
	for _, w := range r.Info.Waits {
		for i, hint := range l.o.Hints(w) {
			if l.news(fmt.Sprint(r.Info.ID, " hint ", w.Key, i), hint) {
				l.say(now, title, span{text: " "}, hint)
			}
		}
	}
}

func (l *lines) addRow(r *Run, row *Row, title string) {
	if row.Began.IsZero() || row.Kind == "child" && row.State != Failed { // the child tells itself
		return
	}
	remark, took := row.remark(ofDay), ""
	switch row.State {
	case Working:
		remark = "" // progress is for those who watch
	case Done, Failed, Stopped:
		took = Duration(row.Took)
	default:
	}
	text := strings.TrimRight(fmt.Sprintf("%-24s %7s  %s", row.label(), took, remark), " ")
	if l.news(r.Info.ID+" "+row.Key, fmt.Sprint(row.State, row.Attempts, text)) {
		l.say(row.Changed, title, row.mark(), text)
	}
}

// news reports whether what is said about a thing differs from what was said last.
func (l *lines) news(thing, text string) bool {
	if l.known[thing] == text {
		return false
	}
	l.known[thing] = text
	return true
}

func (l *lines) say(at time.Time, title string, mark span, text string) {
	l.batch = append(l.batch, entry{at, title + "  " + mark.text + " " + text})
}
