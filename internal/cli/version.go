package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/cairn-workflow/cairn/internal/version"
)

// program is what is known of this build.
type program struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func thisProgram() program {
	v := version.Get()
	return program{Version: v.Version, Commit: v.Commit, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
}

// String is the program in one line.
func (p program) String() string {
	return fmt.Sprintf("cairn %s, %s, %s", version.Info{Version: p.Version, Commit: p.Commit}, p.Go, p.Platform)
}

func newVersion(s *System) *cobra.Command {
	var asJSON bool
	command := &cobra.Command{
		Use:   "version",
		Short: "Show which build of Cairn this is",
		Long: text(`
			Shows the version, the revision of the source it was built from, the version of Go and the platform. Please add it
			when you report a problem.`),
		Example: "  cairn version --json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return writeJSON(s.Out, thisProgram())
			}
			_, err := fmt.Fprintln(s.Out, thisProgram())
			return err
		},
	}
	command.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return command
}

// writeJSON prints a value for programs, in a form that people can read too.
func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
