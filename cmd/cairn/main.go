// Command cairn is the command line of Cairn, a durable workflow engine: cairn --help tells what it can do.
package main

import (
	"os"

	"github.com/cairn-workflow/cairn/internal/cli"
)

func main() { os.Exit(cli.Main()) }
