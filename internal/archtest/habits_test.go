package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
)

// The limits of files and functions, in lines.
const (
	maxFileLines     = 800
	maxFunctionLines = 120
)

// packageComments: every package says what it is.
func packageComments(s source) (violations []string) {
	documented := make(map[string]bool)
	var dirs []string
	for _, file := range s.code {
		if file.test {
			continue
		}
		if _, seen := documented[file.dir()]; !seen {
			dirs = append(dirs, file.dir())
		}
		documented[file.dir()] = documented[file.dir()] || file.tree.Doc != nil
	}
	for _, dir := range dirs {
		if !documented[dir] {
			violations = append(violations, dir+": no package comment")
		}
	}
	return violations
}

// noInit: nothing happens because a package was imported.
func noInit(s source) (violations []string) {
	for _, file := range s.code {
		for _, declaration := range file.tree.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if ok && !file.generated && function.Recv == nil && function.Name.Name == "init" {
				violations = append(violations, s.at(function)+": no init functions")
			}
		}
	}
	return violations
}

// wellKnown are methods whose meaning everybody knows.
var wellKnown = []string{"Error", "Is", "Len", "Less", "MarshalJSON", "Read", "ServeHTTP", "String", "Swap", "UnmarshalJSON", "Unwrap", "Write"}

// exportedDocumented: every exported name has a comment. In a group the comment of the group will do, or one at the end of
// the line.
func exportedDocumented(s source) (violations []string) {
	for _, file := range s.production() {
		if file.tree.Name.Name == "main" {
			continue
		}
		for _, declaration := range file.tree.Decls {
			for _, name := range undocumented(declaration) {
				violations = append(violations, fmt.Sprintf("%s: %s has no comment", s.at(name), name.Name))
			}
		}
	}
	return violations
}

// undocumented lists the exported names of one declaration that have no comment.
func undocumented(declaration ast.Decl) []*ast.Ident {
	switch declaration := declaration.(type) {
	case *ast.FuncDecl:
		if declaration.Doc == nil && declaration.Name.IsExported() && !silentMethod(declaration) {
			return []*ast.Ident{declaration.Name}
		}
	case *ast.GenDecl:
		if declaration.Doc == nil {
			return undocumentedSpecs(declaration.Specs)
		}
	}
	return nil
}

func undocumentedSpecs(specs []ast.Spec) (names []*ast.Ident) {
	for _, spec := range specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if spec.Doc == nil && spec.Comment == nil && spec.Name.IsExported() {
				names = append(names, spec.Name)
			}
		case *ast.ValueSpec:
			if spec.Doc != nil || spec.Comment != nil {
				continue
			}
			for _, name := range spec.Names {
				if name.IsExported() {
					names = append(names, name)
				}
			}
		}
	}
	return names
}

// silentMethod tells methods that need no comment: well-known ones, and those of types that nobody outside can name.
func silentMethod(function *ast.FuncDecl) bool {
	if function.Recv == nil {
		return false
	}
	return slices.Contains(wellKnown, function.Name.Name) || !ast.IsExported(receiverName(function.Recv.List[0].Type))
}

// receiverName is the name of the receiver's type, without pointer and type parameters.
func receiverName(expression ast.Expr) string {
	switch expression := expression.(type) {
	case *ast.Ident:
		return expression.Name
	case *ast.StarExpr:
		return receiverName(expression.X)
	case *ast.IndexExpr:
		return receiverName(expression.X)
	case *ast.IndexListExpr:
		return receiverName(expression.X)
	}
	return ""
}

// smallPieces: files and functions stay small enough to read.
func smallPieces(s source) (violations []string) {
	for _, file := range s.production() {
		if file.lines > maxFileLines {
			violations = append(violations, fmt.Sprintf("%s: %d lines, %d at most", file.path, file.lines, maxFileLines))
		}
		for _, declaration := range file.tree.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if lines := s.lines(function); lines > maxFunctionLines {
				violations = append(violations, fmt.Sprintf("%s: %s has %d lines, %d at most", s.at(function), function.Name.Name, lines, maxFunctionLines))
			}
		}
	}
	return violations
}

// lines counts the lines of a node.
func (s source) lines(node ast.Node) int {
	line := func(pos token.Pos) int { return s.positions.Position(pos).Line }
	return line(node.End()) - line(node.Pos()) + 1
}

// machinePath finds paths that exist on one person's machine only.
var machinePath = regexp.MustCompile(`(?:^|[\s"'` + "`" + `=(:,>\[])(/(?:root|home/[a-z][\w.-]*|Users/[A-Za-z][\w.-]*|work/(?:main|shared|\.\w+))(?:/|\b))`)

// noMachinePaths: the source is the same on every machine.
func noMachinePaths(s source) (violations []string) {
	for _, file := range s.text {
		for number, line := range strings.Split(file.content, "\n") {
			if found := machinePath.FindStringSubmatch(line); found != nil {
				violations = append(violations, fmt.Sprintf("%s:%d: path of one machine: %s", file.path, number+1, found[1]))
			}
		}
	}
	return violations
}
