//go:build !linux

package torture

import (
	"os/exec"
	"time"
)

// bindToParent does nothing here: only Linux ends a child with its parent.
func bindToParent(*exec.Cmd) {}

// stand does nothing here.
func (l *life) stand(time.Duration) {}
