package main

import (
	"context"
	"fmt"
	"io"

	"github.com/cairn-workflow/cairn"
)

// printer prints a conversation as it comes. A step that was interrupted says everything again, behind a boundary: what stands on the paper already is not
// printed twice.
type printer struct {
	out   io.Writer
	asked func() error // somebody is asked something; nil: not our business

	writer string
	words  []string // of the thought that is being printed
	again  int      // how many of them the writer has repeated; -1: it repeats nothing
}

// print prints the stream of a run, from its beginning to its end.
func (p *printer) print(ctx context.Context, eng *cairn.Engine, run string) error {
	for c, err := range pieces.Read(ctx, eng, run) {
		if err != nil {
			return err
		}
		if err := p.piece(c); err != nil {
			return err
		}
	}
	p.line("")
	return nil
}

func (p *printer) piece(c cairn.Chunk[Piece]) error {
	switch c.Value.Kind {
	case "word":
		p.word(c)
	case "tool":
		p.line("  → " + c.Value.Text)
	case "note":
		p.line("  · " + c.Value.Text)
		if p.asked != nil && c.Value.Text[0] == 'm' {
			return p.asked()
		}
	}
	return nil
}

// word prints a word of a thought.
func (p *printer) word(c cairn.Chunk[Piece]) {
	if c.Writer != p.writer {
		p.writer, p.words, p.again = c.Writer, nil, -1
	}
	if c.Boundary {
		p.again = 0
	}
	text := c.Value.Text
	if p.again >= 0 && p.again < len(p.words) {
		if p.words[p.again] == text {
			p.again++
			return // it stands there
		}
		p.line("  (it says it in other words now)")
		for _, word := range p.words[:p.again] {
			fmt.Fprint(p.out, word, " ")
		}
		p.writer, p.words = c.Writer, p.words[:p.again]
	}
	p.again = -1
	p.words = append(p.words, text)
	fmt.Fprint(p.out, text, " ")
}

// line ends the thought, and prints a line of its own.
func (p *printer) line(text string) {
	if p.writer != "" {
		fmt.Fprintln(p.out)
	}
	p.writer = ""
	if text != "" {
		fmt.Fprintln(p.out, text)
	}
}
