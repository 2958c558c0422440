package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/export"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/open"
)

func newExport(s *System) *cobra.Command {
	x := &exporting{system: s}
	command := &cobra.Command{
		Use:   "export RUN",
		Short: "Write a run to a file that can be read for ever",
		Long: text(`
			Writes a run as JSON lines: a header, one line for each event of its journal, and a last line with their number.
			docs/export.md describes the format. Any run can be exported, even one that has not ended; the database is only read.

			The file has the values of your program as they are stored: check it before you share it.`) +
			"\n\n" + exitCodes,
		Example: text(`
			  cairn export wrun_01JD0000000000000000000000 -o order.jsonl
			  cairn export wrun_01JD0000000000000000000000 --store postgres://localhost/app | jq .type`),
		Args: cobra.ExactArgs(1),
		RunE: x.run,
	}
	storeFlag(command, &x.store)
	command.Flags().StringVar(&x.namespace, "namespace", "", "look in this namespace only (default: in all)")
	command.Flags().StringVarP(&x.file, "output", "o", "", "write to this `FILE`, which must not exist (default: standard output)")
	command.Flags().BoolVar(&x.force, "force", false, "replace the file if it exists")
	return command
}

// exporting is a run being written to a file.
type exporting struct {
	system                 *System
	store, namespace, file string
	force                  bool
}

func (x *exporting) run(command *cobra.Command, args []string) error {
	id, err := parseRun(args[0])
	if err != nil {
		return err
	}
	ctx := command.Context()
	db, err := x.system.openToRead(ctx, x.store)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	namespace, j, err := x.find(ctx, db, id)
	if err != nil {
		return err
	}
	if j == nil {
		location, _ := open.Location(storeURL(x.store, x.system)) // it was opened
		return cairnerr.Errorf(cairnerr.CodeRunNotFound, "no run %s in %s", args[0], location)
	}
	var out bytes.Buffer // complete before anything is written: half a file helps nobody
	if err := export.Write(&out, namespace, j.Run, j.Events); err != nil {
		return err
	}
	if x.file == "" {
		_, err := x.system.Out.Write(out.Bytes())
		return err
	}
	if err := x.save(out.Bytes()); err != nil {
		return err
	}
	fmt.Fprintf(x.system.Out, "%s of %s written to %s\nnext: cairn replay %s\n", amount(len(j.Events), "event"), args[0], x.file, x.file)
	return nil
}

// find looks for the run in the namespaces. It returns nil if there is none.
func (x *exporting) find(ctx context.Context, db store.Store, id journal.ID) (string, *store.Journal, error) {
	namespaces := []string{x.namespace}
	if x.namespace == "" {
		var err error
		if namespaces, err = db.Namespaces(ctx); err != nil {
			return "", nil, err
		}
	}
	for _, namespace := range namespaces {
		j, err := db.Journal(ctx, namespace, id, 0)
		if err == nil {
			return namespace, j, nil
		}
		if cairnerr.CodeOf(err) != cairnerr.CodeRunNotFound {
			return "", nil, err
		}
	}
	return "", nil, nil
}

func (x *exporting) save(content []byte) error {
	mode := os.O_CREATE | os.O_WRONLY | os.O_EXCL
	if x.force {
		mode = os.O_CREATE | os.O_WRONLY | os.O_TRUNC
	}
	file, err := os.OpenFile(x.file, mode, 0o600) // it has the values of the program
	if os.IsExist(err) {
		return &usageError{fmt.Errorf("%s exists: choose another file, or use --force", x.file)}
	}
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	return err
}
