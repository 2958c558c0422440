package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/open"
	"github.com/cairn-workflow/cairn/internal/version"
)

// The store and the namespace that commands use unless told otherwise, and where they are told.
const (
	defaultStore     = "sqlite:cairn.db"
	storeVariable    = "CAIRN_STORE"
	defaultNamespace = "default"
)

func newRoot(s *System) *cobra.Command {
	root := &cobra.Command{
		Use:   "cairn",
		Short: "Durable workflows: every step is recorded, and a crash loses nothing",
		Long: text(`
			Cairn runs durable workflows. Everything that happens to a run is written to its journal in a database, SQLite or
			PostgreSQL, so that a crash loses nothing: the run goes on where it was.

			New here? "cairn doctor" looks at this program and its database, changes nothing, and reports what it finds.`) +
			"\n\n" + exitCodes,
		Example: text(`
			  cairn version
			  cairn doctor
			  cairn doctor --store postgres://localhost/app
			  cairn runs --status running
			  cairn logs wrun_01K9ZXG5CVXQ3V6T5W8Y2J4M7N --follow`),
		Version:       version.Get().String(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("cairn {{.Version}}\n")
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.AddCommand(newDoctor(s), newExport(s), newLogs(s), newReplay(s), newRuns(s), newStream(s), newVersion(s))
	return root
}

// onStart notes that the command line was understood.
func onStart(understood *bool) func(*cobra.Command, []string) {
	return func(*cobra.Command, []string) { *understood = true }
}

// storeFlag adds --store. Its default is not shown by the flag itself: the variable may hold a password.
func storeFlag(command *cobra.Command, into *string) {
	command.Flags().StringVar(into, "store", "", "`URL` or path of the database (default $"+storeVariable+", else "+defaultStore+")")
}

// namespaceFlag adds --namespace.
func namespaceFlag(command *cobra.Command, into *string) {
	command.Flags().StringVar(into, "namespace", defaultNamespace, "`name` of the namespace that the runs are in")
}

// storeURL returns the store that the command line, the environment or else the default names.
func storeURL(flag string, s *System) string {
	if flag != "" {
		return flag
	}
	if set := s.Getenv(storeVariable); set != "" {
		return set
	}
	return defaultStore
}

// openToRead opens the store that a command reads, and changes nothing.
func (s *System) openToRead(ctx context.Context, flag string) (store.Store, error) {
	url := storeURL(flag, s)
	if _, err := open.Location(url); err != nil {
		return nil, &usageError{err}
	}
	db, err := open.ReadOnly(ctx, url)
	if cairnerr.CodeOf(err) == cairnerr.CodeMalformed {
		return nil, &usageError{err}
	}
	return db, err
}

// parseRun reads the id of a run that was given as an argument.
func parseRun(argument string) (journal.ID, error) {
	id, err := journal.PrefixRun.Parse(argument)
	if err != nil {
		return id, &usageError{err}
	}
	return id, nil
}

// text takes the indentation of the source away.
func text(block string) string {
	return strings.ReplaceAll(strings.TrimPrefix(block, "\n"), "\t", "")
}
