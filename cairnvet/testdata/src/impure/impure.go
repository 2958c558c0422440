// Package impure reaches outside.
package impure

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/cairn-workflow/cairn"
)

func workflow(ctx cairn.Context, db *sql.DB, client *http.Client) error {
	_ = os.Getenv("HOME")                   // want `os.Getenv in a workflow is done again, and can be different, when it is executed again: do it in a step, for example with cairn.Do \[impure\]`
	_, _ = os.ReadFile("a")                 // want `os.ReadFile in`
	_ = os.Remove("a")                      // want `os.Remove in`
	_, _ = http.Get("a")                    // want `http.Get in`
	_, _ = client.Do(nil)                   // want `http.Client.Do in`
	_, _ = db.ExecContext(ctx, "a")         // want `sql.DB.ExecContext in`
	_ = exec.CommandContext(ctx, "a").Run() // want `exec.Cmd.Run in`
	_, _ = net.Dial("tcp", "a")             // want `net.Dial in`
	return filepath.WalkDir("a", nil)       // want `filepath.WalkDir in`
}

func fine(ctx cairn.Context) (string, error) {
	fmt.Fprintln(os.Stderr, filepath.Join("a", "b"), http.StatusOK, os.ErrNotExist)
	slog.InfoContext(ctx, "fine")
	return cairn.Do(ctx, "step", func(context.Context) (string, error) { return os.Getenv("HOME"), nil })
}
