package cli

import (
	"fmt"
	"strconv"
	"time"
)

// The colours of a terminal.
const (
	green  = "32"
	yellow = "33"
	red    = "31"
	faint  = "2"
)

// paint colours text for standard output, if people look at it and want colour.
func (s *System) paint(colour, text string) string {
	if !s.OutTerminal || s.Getenv("NO_COLOR") != "" || s.Getenv("TERM") == "dumb" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// progress is one line on a terminal that is written again and again. Elsewhere it does nothing.
type progress struct {
	system *System
	next   time.Time
	shown  bool
}

// progressPause is how long a line stays at least.
const progressPause = 100 * time.Millisecond

func (p *progress) show(text string) {
	now := p.system.Now()
	if !p.system.ErrTerminal || now.Before(p.next) {
		return
	}
	p.next, p.shown = now.Add(progressPause), true
	fmt.Fprint(p.system.Err, "\r\x1b[K"+text)
}

// clear takes the line away.
func (p *progress) clear() {
	if p.shown {
		fmt.Fprint(p.system.Err, "\r\x1b[K")
		p.shown = false
	}
}

// amount writes a number with commas and a noun after it: "1 run", "1,234 runs".
func amount[N ~int | ~int64](n N, noun string) string {
	text := strconv.FormatInt(int64(n), 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	if n != 1 {
		noun += "s"
	}
	return text + " " + noun
}

// size writes a number of bytes.
func size(bytes int64) string {
	units := []string{"KiB", "MiB", "GiB", "TiB"}
	value, unit := float64(bytes), "B"
	for _, u := range units {
		if value < 1024 {
			break
		}
		value, unit = value/1024, u
	}
	if unit == "B" {
		return fmt.Sprintf("%d B", bytes)
	}
	return fmt.Sprintf("%.1f %s", value, unit)
}
