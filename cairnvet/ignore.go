package cairnvet

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

const (
	directivePrefix = "//cairnvet:"
	ignoreDirective = "ignore"
)

// place is a line of a file.
type place struct {
	file string
	line int
}

// ignores are the comments of a package that hide findings.
type ignores struct {
	positions *token.FileSet
	hidden    map[place][]string // the rules that are switched off in a line
	broken    []analysis.Diagnostic
}

// hide reports whether findings of the rule are not wanted there.
func (i *ignores) hide(rule string, pos token.Pos) bool {
	return slices.Contains(i.hidden[i.at(pos)], rule)
}

// at is the line of a position in the file that was read, whatever a //line comment says.
func (i *ignores) at(pos token.Pos) place {
	position := i.positions.PositionFor(pos, false)
	return place{position.Filename, position.Line}
}

// checkIgnores reports the comments that hide nothing because something is missing.
func checkIgnores(p *rulePass) {
	for _, diagnostic := range p.ignores.broken {
		p.report(diagnostic)
	}
}

func readIgnores(pass *analysis.Pass) (ignores, error) {
	read := ignores{positions: pass.Fset, hidden: map[place][]string{}}
	for _, file := range pass.Files {
		alone, err := read.readFile(pass, file)
		if err != nil {
			return read, err
		}
		// A comment that stands alone is about the next line. If that is another such comment, it hands on what it was told.
		for _, above := range alone {
			below := place{above.file, above.line + 1}
			read.hidden[below] = append(read.hidden[below], read.hidden[above]...)
		}
	}
	return read, nil
}

// readFile reads the comments of one file, and returns the lines of those that have no code before them.
func (i *ignores) readFile(pass *analysis.Pass, file *ast.File) (alone []place, err error) {
	var source []byte
	for _, group := range file.Comments {
		for _, comment := range group.List {
			directive, found := strings.CutPrefix(comment.Text, directivePrefix)
			if !found {
				continue
			}
			position := i.positions.PositionFor(comment.Pos(), false)
			if source == nil {
				if source, err = pass.ReadFile(position.Filename); err != nil {
					return nil, err
				}
			}
			rule, problem := parseIgnore(directive)
			if problem != "" {
				i.broken = append(i.broken, analysis.Diagnostic{
					Pos: comment.Pos(), End: comment.End(), Category: ruleIgnore, Message: problem + " [" + ruleIgnore + "]",
				})
				continue
			}
			at := place{position.Filename, position.Line}
			i.hidden[at] = append(i.hidden[at], rule)
			before := source[:min(position.Offset, len(source))]
			if len(bytes.TrimSpace(before[bytes.LastIndexByte(before, '\n')+1:])) == 0 {
				alone = append(alone, at)
			}
		}
	}
	return alone, nil
}

// parseIgnore reads what comes after "//cairnvet:": the rule that is switched off, or what is wrong with the comment.
func parseIgnore(directive string) (rule, problem string) {
	directive, _, _ = strings.Cut(directive, " //") // another comment in the same line
	words := strings.Fields(directive)
	switch {
	case len(words) == 0 || words[0] != ignoreDirective:
		return "", `the only comment of this kind is "//cairnvet:ignore rule reason"`
	case len(words) == 1:
		return "", "this hides nothing: say which rule is ignored, and why"
	case !slices.Contains(ignorable, words[1]):
		return "", fmt.Sprintf("this hides nothing: there is no rule %q; there are %s", words[1], strings.Join(ignorable, ", "))
	case len(words) == 2:
		return "", fmt.Sprintf("this hides nothing: say why %s is ignored here", words[1])
	}
	return words[1], ""
}
