package show

import (
	"fmt"
	"os"
	"strings"
	"time"
	"unicode/utf8"
)

// screen draws runs on a terminal, again and again in the same place.
type screen struct {
	out   *os.File
	o     *Options
	began time.Time
	drawn int // lines of the last picture
}

// line is one line of the picture, in columns.
type line struct {
	indent      int
	mark, label span
	clock       string
	note        span
}

// detail levels: what is left out of a picture that is too high.
const (
	withAll      = iota
	withoutEnded // of runs that have ended, only the title
	withoutDone  // only what is not over
	levels
)

// maxRows is the most rows of one run that are shown: of those that are over, the oldest are left out.
const maxRows = 12

func (s *screen) show(runs []*Run, now time.Time) {
	width, height, ok := sizeOf(s.out)
	if !ok {
		width, height = 80, 24
	}
	var picture []line
	for level := range levels {
		if picture = s.picture(runs, now, level); len(picture) < height {
			break
		}
	}
	if over := len(picture) - (height - 1); over > 0 { // the newest is at the bottom
		picture = picture[over:]
	}
	s.draw(picture, width)
}

// end draws everything, whether it fits or not: it stays.
func (s *screen) end(runs []*Run, now time.Time) {
	s.draw(s.picture(runs, now, withAll), 0)
}

func (s *screen) picture(runs []*Run, now time.Time, level int) []line {
	var out []line
	for _, r := range runs {
		out = s.addRun(out, r, now, 0, level)
	}
	return out
}

func (s *screen) addRun(out []line, r *Run, now time.Time, indent, level int) []line {
	status := r.status()
	if w := r.waits(); w != "" {
		status.text += " · " + w
	}
	out = append(out, line{indent, r.mark(), span{bold, s.o.Title(r.Info)}, r.clock(now), status})
	if level >= withoutEnded && !r.Info.EndedAt.IsZero() {
		return out
	}
	indent += 2
	if s.o.Caption != nil {
		if text := s.o.Caption(r); text != "" {
			out = append(out, line{indent: indent, label: span{plain, text}})
		}
	}
	rows, left := pick(r.Rows, level)
	if left > 0 {
		out = append(out, line{indent: indent, mark: span{faint, "⋮"}, label: span{faint, fmt.Sprintf("%d more", left)}})
	}
	for _, row := range rows {
		if row.Child != nil {
			out = s.addRun(out, row.Child, now, indent, level)
			continue
		}
		out = append(out, rowLine(row, now, indent))
	}
	for _, c := range r.Children {
		out = s.addRun(out, c, now, indent, level)
	}
	if s.o.Hints != nil && r.Info.EndedAt.IsZero() {
		for _, w := range r.Info.Waits {
			for _, hint := range s.o.Hints(w) {
				out = append(out, line{indent: indent + 2, label: span{cyan, hint}})
			}
		}
	}
	return out
}

func rowLine(row *Row, now time.Time, indent int) line {
	l := line{indent, row.mark(), span{plain, row.label()}, row.clock(now), span{faint, row.remark(fromNow(now))}}
	switch row.State {
	case Failed:
		l.note.colour = red
	case Retrying, Noted:
		l.note.colour = yellow
	case Stopped:
		l.label.colour = faint
	default:
	}
	return l
}

// pick chooses the rows that are shown, and returns how many are not.
func pick(rows []*Row, level int) (picked []*Row, left int) {
	drop := len(rows) - maxRows
	for _, row := range rows {
		over := row.State == Done || row.State == Stopped
		if row.Child != nil {
			over = false
		}
		if over && (level >= withoutDone || drop > 0) {
			left++
			drop--
			continue
		}
		picked = append(picked, row)
	}
	return picked, left
}

// draw puts a picture where the last one was. Lines are cut at the width, unless it is 0.
func (s *screen) draw(picture []line, width int) {
	column := 32
	for _, l := range picture {
		if l.clock != "" {
			column = max(column, l.indent+2+utf8.RuneCountInString(l.label.text))
		}
	}
	column = min(column, 56)
	var b strings.Builder
	if s.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", s.drawn)
	}
	for _, l := range picture {
		b.WriteString("\r")
		b.WriteString(paint(l.spans(column), width))
		b.WriteString("\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	s.drawn = len(picture)
	fmt.Fprint(s.out, b.String())
}

// spans lays a line out: the label is padded to a column, and the time stands on the right of its own.
func (l line) spans(column int) []span {
	text := span{plain, strings.Repeat(" ", l.indent)}
	if l.mark.text == "" {
		return []span{text, {plain, "  "}, l.label}
	}
	pad := max(column-l.indent-2-utf8.RuneCountInString(l.label.text), 0)
	return []span{text, l.mark, {plain, " "}, l.label, {faint, strings.Repeat(" ", pad) + fmt.Sprintf("  %7s  ", l.clock)}, l.note}
}

// paint writes spans in their colours, if people want colours.
func paint(spans []span, width int) string {
	colours := os.Getenv("NO_COLOR") == ""
	var b strings.Builder
	used := 0
	for _, s := range spans {
		text := []rune(s.text)
		if width > 0 && used+len(text) >= width {
			text = text[:max(width-1-used, 0)]
		}
		used += len(text)
		if s.colour == plain || !colours || len(text) == 0 {
			b.WriteString(string(text))
			continue
		}
		fmt.Fprintf(&b, "\x1b[%sm%s\x1b[0m", s.colour, string(text))
	}
	return b.String()
}
