// Command cairnvet finds mistakes in workflow functions. It works alone and under go vet:
//
//	go run github.com/cairn-workflow/cairn/cmd/cairnvet ./...
//	go vet -vettool=$(which cairnvet) ./...
//
// Each rule has a flag: -time=false switches it off, -time runs no other. cairnvet help lists them.
package main

import (
	"golang.org/x/tools/go/analysis/multichecker"

	"github.com/cairn-workflow/cairn/cairnvet"
)

// The main function of multichecker also speaks the protocol of go vet -vettool.
func main() { multichecker.Main(cairnvet.Analyzers()...) }
