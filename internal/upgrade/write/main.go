// Command write writes a database for the tests of package upgrade: it starts the runs of package workflows, lets them come to where they wait, and
// stops. It is compiled with the code of old commits by scripts/fixtures.sh, so it uses nothing that they do not have.
//
//	write URL [DIR]
//
// writes to the database at the URL, and the runs into files in the directory.
package main

import (
	"context"
	"log"
	"os"
	"time"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/internal/upgrade/workflows"
	"github.com/cairn-workflow/cairn/store/open"
)

// settle is how long the runs have to come to where they wait.
const settle = 3 * time.Second

func main() {
	if err := write(context.Background(), os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func write(ctx context.Context, args []string) error {
	st, err := open.URL(ctx, args[0])
	if err != nil {
		return err
	}
	var definitions []cairn.Definition
	all := workflows.All()
	for i := range all {
		definitions = append(append(definitions, all[i].Workflow), all[i].Children...)
	}
	e, err := cairn.New(ctx, st, definitions...)
	if err != nil {
		return err
	}
	ids := map[string]string{}
	for i := range all {
		run, err := all[i].Start(ctx, e)
		if err != nil {
			return err
		}
		ids[all[i].Name] = run.ID()
	}
	time.Sleep(settle)
	if len(args) > 1 {
		if err := export(ctx, e, ids, args[1]); err != nil {
			return err
		}
	}
	if err := e.Stop(ctx); err != nil {
		return err
	}
	return st.Close()
}
