//go:build !linux

package torture

import (
	"errors"
	"os/exec"
)

func alone(*exec.Cmd) bool { return false }

// mountSmall is for Linux only: elsewhere the disk is never full.
func mountSmall(string) error { return errors.ErrUnsupported }

func fill(string) error { return errors.ErrUnsupported }

func empty(string) error { return errors.ErrUnsupported }

func unmount(*database) error { return nil }
