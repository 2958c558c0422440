package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/cairn-workflow/cairn"
)

// export writes each run into a file of its name, where the program can.
func export(ctx context.Context, e *cairn.Engine, ids map[string]string, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, id := range ids {
		file, err := os.Create(filepath.Join(dir, name+".jsonl"))
		if err != nil {
			return err
		}
		if err := e.Run(id).Export(ctx, file); err != nil {
			return err
		}
		if err := file.Close(); err != nil {
			return err
		}
	}
	return nil
}
