package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/migration"
	"github.com/cairn-workflow/cairn/internal/store/open"
)

func newDoctor(s *System) *cobra.Command {
	d := &doctor{system: s}
	command := &cobra.Command{
		Use:   "doctor",
		Short: "Check this program and its database, without changing anything",
		Long: text(`
			Looks at this program and its database, and reports problems. Each line begins with ok, warn or
			FAIL; each warning and failure comes with a next step.

			  program     which build this is
			  database    it can be opened; what it is, how large, and the version of its schema
			  durability  whether its settings let a power cut lose acknowledged writes
			  views       what the database shows of each run agrees with the run's journal

			Doctor only reads, and may run while other programs write. (SQLite itself keeps two small files, -wal and -shm, beside
			a database that is open or was.) It reads every run: on a large database use --quick first.

			A database that does not exist yet is fine: it is created on first use.`) +
			"\n\n" + exitCodes + "\n\nWarnings do not change the exit code.",
		Example: text(`
			  cairn doctor
			  cairn doctor --store app.db --quick
			  cairn doctor --store postgres://user:password@localhost/app --json`),
		Args: cobra.NoArgs,
		RunE: d.run,
	}
	storeFlag(command, &d.store)
	command.Flags().BoolVar(&d.asJSON, "json", false, "print one JSON object, with up to 1000 differences")
	command.Flags().BoolVar(&d.quick, "quick", false, fmt.Sprintf("check the views of the newest %d runs only", quickRuns))
	return command
}

// doctor is one look at a program and its database.
type doctor struct {
	system *System
	store  string
	asJSON bool
	quick  bool
	report report
}

func (d *doctor) run(command *cobra.Command, _ []string) error {
	url := storeURL(d.store, d.system)
	location, err := open.Location(url)
	if err != nil {
		return &usageError{err}
	}
	d.report.Store = location
	d.ok("program", thisProgram().String())
	if err := d.examine(command.Context(), url); err != nil {
		return err
	}
	return d.finish()
}

// examine opens the database and checks it. It returns an error only where the doctor itself cannot go on.
func (d *doctor) examine(ctx context.Context, url string) error {
	db, err := open.ReadOnly(ctx, url)
	if err != nil {
		return d.notOpened(err)
	}
	defer func() { _ = db.Close() }()
	info, err := db.Info(ctx)
	if err != nil {
		return d.failed(ctx, "database", err)
	}
	d.ok("database", fmt.Sprintf("%s %s at %s, %s, schema version %d", info.Kind, info.Version, info.Location, size(info.SizeBytes), info.SchemaVersion))
	d.durability(&info)
	return d.views(ctx, db)
}

// notOpened tells a database that does not exist yet from one that cannot be opened.
func (d *doctor) notOpened(err error) error {
	code := cairnerr.CodeOf(err)
	version, old := cairnerr.AsError(err).Details[migration.DetailVersion]
	missing, noFile := errors.AsType[*fs.PathError](err)
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case code == cairnerr.CodeMalformed:
		return &usageError{err}
	case noFile && errors.Is(err, fs.ErrNotExist):
		d.noFile(missing.Path)
	case old && version == "0":
		d.ok("database", fmt.Sprintf("no tables of Cairn's yet in %s; they are created on first use", d.report.Store))
	case old:
		d.add(check{Name: "database", Status: statusWarn, Message: err.Error() + "; the views were not checked", Code: code, Next: advice(err)})
	default:
		d.fail("database", err)
	}
	return nil
}

func (d *doctor) noFile(path string) {
	folder := filepath.Dir(path)
	if _, err := os.Stat(folder); err != nil {
		d.add(check{
			Name: "database", Status: statusFail, Code: cairnerr.CodeUnreachable,
			Message: fmt.Sprintf("no database yet at %s, and it cannot be created: there is no folder %s", path, folder), Next: "mkdir -p " + folder,
		})
		return
	}
	d.ok("database", fmt.Sprintf("no database yet at %s; it is created on first use", path))
}

func (d *doctor) durability(info *store.Info) {
	if info.Durable {
		d.ok("durability", info.Durability)
		return
	}
	next := "set synchronous_commit and fsync to on, unless you may lose the writes that were acknowledged last"
	if info.Kind == "sqlite" {
		next = "let Cairn open the database once for writing: it sets the journal mode to wal"
	}
	d.add(check{
		Name: "durability", Status: statusWarn,
		Message: info.Durability + ": a power cut may lose acknowledged writes", Next: next,
	})
}
