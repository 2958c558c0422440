package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
)

const journalDir = "internal/journal"

// impure lists the standard packages that reach outside the program or give random values.
var impure = []string{
	"crypto/rand", "database", "embed", "expvar", "io/fs", "io/ioutil", "log", "math/rand", "net", "os", "plugin",
	"runtime/pprof", "runtime/trace", "syscall", "testing",
}

// pureLibraries are what the journal may use besides the standard library.
var pureLibraries = []string{"github.com/oklog/ulid/v2", "github.com/fxamacker/cbor/v2"}

// impureNames lists, by package, the functions of otherwise pure packages that read a clock, random values or the outside.
var impureNames = map[string][]string{
	"time":                     {"After", "AfterFunc", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until", "Local", "LoadLocation"},
	"fmt":                      {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
	"runtime":                  {"Gosched", "GC", "NumGoroutine"},
	"context":                  {"WithTimeout", "WithTimeoutCause", "WithDeadline", "WithDeadlineCause", "AfterFunc"},
	"github.com/oklog/ulid/v2": {"DefaultEntropy", "Make", "MustNewDefault", "Now"},
}

// errorDir holds the errors, on which everything stands.
const errorDir = "cairnerr"

// journalImports: the journal imports nothing of the house but the errors, does no I/O, and uses two libraries at most.
func journalImports(s source) (violations []string) {
	for _, file := range s.production() {
		if !under(file.dir(), journalDir) {
			continue
		}
		for _, imported := range file.imports() {
			folder, own := inHouse(imported)
			switch {
			case own && !underAny(folder, journalDir, errorDir):
				violations = append(violations, file.path+": the journal imports nothing of the house: "+imported)
			case own, slices.Contains(pureLibraries, imported):
			case !standard(imported):
				violations = append(violations, file.path+": the journal may not use "+imported)
			case underAny(imported, impure...):
				violations = append(violations, file.path+": the journal has no I/O and no randomness: "+imported)
			}
		}
	}
	return violations
}

// journalBehaviour: the journal starts no goroutine and reads neither clock nor randomness.
func journalBehaviour(s source) (violations []string) {
	for _, file := range s.production() {
		if !under(file.dir(), journalDir) {
			continue
		}
		names := importNames(file.tree)
		ast.Inspect(file.tree, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.GoStmt:
				violations = append(violations, s.at(node)+": the journal starts no goroutine")
			case *ast.SelectorExpr:
				qualifier, ok := node.X.(*ast.Ident)
				if ok && slices.Contains(impureNames[names[qualifier.Name]], node.Sel.Name) {
					violations = append(violations, fmt.Sprintf("%s: the journal is pure: %s.%s", s.at(node), qualifier.Name, node.Sel.Name))
				}
			}
			return true
		})
	}
	return violations
}

// Where the databases live: the interface with its implementations, and the suite that they pass. Folder store holds what users open.
const (
	storeDir = "internal/store"
	suiteDir = storeDir + "/storetest"
)

// storeImports: a store knows the journal, payloads, the version and other stores, and the suite is for tests only.
func storeImports(s source) (violations []string) {
	for _, file := range s.production() {
		if !underAny(file.dir(), storeDir, "store") || under(file.dir(), suiteDir) {
			continue
		}
		for _, imported := range file.imports() {
			folder, own := inHouse(imported)
			if own && (under(folder, suiteDir) || !underAny(folder, journalDir, errorDir, "internal/payload", "internal/version", storeDir, "store")) {
				violations = append(violations, file.path+": a store may not import "+imported)
			}
			if own && siblingStore(file.dir(), folder) {
				violations = append(violations, file.path+": only the packages named open know the drivers: "+imported)
			}
		}
	}
	return violations
}

// siblingStore reports an import of a driver's package from outside it and the packages named open. The public package of a driver wraps the
// internal one.
func siblingStore(dir, folder string) bool {
	for _, driver := range []string{"store/sqlite", "store/postgres"} {
		own := []string{driver, "internal/" + driver, "store/open", "internal/store/open"}
		if underAny(folder, driver, "internal/"+driver) && !underAny(dir, own...) {
			return true
		}
	}
	return false
}

// frontEndImports: server, command line and front ends reach into no store. The command line may open one by URL.
func frontEndImports(s source) (violations []string) {
	for _, file := range s.production() {
		if !underAny(file.dir(), "internal/server", "internal/cli", "pipeline", "graph", "flow") {
			continue
		}
		forbidden := []string{"store/sqlite", "store/postgres", "internal/store/sqlite", "internal/store/postgres"}
		if !under(file.dir(), "internal/cli") {
			forbidden = append(forbidden, "store/open", "internal/store/open")
		}
		for _, imported := range file.imports() {
			if folder, own := inHouse(imported); own && underAny(folder, forbidden...) {
				violations = append(violations, file.path+": go through the engine, not "+imported)
			}
		}
	}
	return violations
}

// layers orders the house from the ground up. A package may import its own layer and those before it. Folders that are not
// named (tests, tools, examples) are free.
var layers = [][]string{
	{errorDir},
	{journalDir, "internal/payload", "internal/schema", "observe"},
	{storeDir, "store"},
	{"internal/commit", "internal/export"},
	{"internal/engine", "internal/stream", "internal/outbox", "internal/wake", "internal/blob", "sink"},
	{".", "pipeline", "graph", "flow", "cairntest", "cairnvet"},
	{"cmd/cairn", "cmd/cairnvet", "web", "client", "internal/cli", "internal/server"},
}

// layerOf returns the layer of a folder, or -1.
func layerOf(folder string) int {
	for layer, folders := range layers {
		for _, member := range folders {
			if folder == member || member != "." && under(folder, member) {
				return layer
			}
		}
	}
	return -1
}

// arrowsPointDown: nothing imports a layer above its own.
func arrowsPointDown(s source) (violations []string) {
	for _, file := range s.production() {
		own := layerOf(file.dir())
		if own < 0 || under(file.dir(), suiteDir) {
			continue
		}
		for _, imported := range file.imports() {
			if folder, ok := inHouse(imported); ok && layerOf(folder) > own {
				violations = append(violations, file.path+": an arrow may only point down: "+imported)
			}
		}
	}
	return violations
}

// linterImports: the linter knows package cairn by its name, and links none of it.
func linterImports(s source) (violations []string) {
	for _, file := range s.production() {
		if !under(file.dir(), "cairnvet") {
			continue
		}
		for _, imported := range file.imports() {
			if folder, own := inHouse(imported); own && !under(folder, "cairnvet") {
				violations = append(violations, file.path+": the linter imports nothing of the house: "+imported)
			}
		}
	}
	return violations
}

// drivers are what the root package must not link: database drivers, and libraries for metrics and traces.
var drivers = []string{
	"modernc.org/sqlite", "github.com/jackc/pgx", "github.com/jackc/pgx/v5", "go.opentelemetry.io/otel", "github.com/prometheus/client_golang",
}

// linkedDrivers picks the drivers out of all packages that a program links.
func linkedDrivers(packages []string) (violations []string) {
	for _, linked := range packages {
		if underAny(linked, drivers...) {
			violations = append(violations, "package cairn links "+linked+": a user links what he uses")
		}
	}
	return violations
}

// standard reports whether an import path belongs to the standard library, whose first element has no dot.
func standard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}

// importNames maps the names that a file uses for its imports to their paths.
func importNames(tree *ast.File) map[string]string {
	names := make(map[string]string)
	for _, spec := range tree.Imports {
		imported := strings.Trim(spec.Path.Value, `"`)
		name := path.Base(imported)
		if len(name) > 1 && name[0] == 'v' && token.IsIdentifier(name) && strings.Trim(name[1:], "0123456789") == "" {
			name = path.Base(path.Dir(imported))
		}
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = imported
	}
	return names
}
