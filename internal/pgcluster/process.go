package pgcluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// process is a program that this one started.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the program has ended and been waited for
	exit error         // how it ended; to be read after done is closed
}

// spawn starts a program in dir that writes to the file log.
func spawn(dir, log, name string, args ...string) (*process, error) {
	output, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("pgcluster: log: %w", err)
	}
	defer output.Close() //nolint:errcheck // the child has its own copy
	//nolint:noctx // the program outlives the call; stop ends it
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = output, output
	return launch(cmd, dir)
}

// run runs a program in dir to its end; its output is part of the error.
func run(ctx context.Context, dir, name string, args ...string) error {
	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = &output, &output
	started, err := launch(cmd, dir)
	if err != nil {
		return err
	}
	<-started.done
	if started.exit != nil {
		return fmt.Errorf("pgcluster: %s: %w\n%s", filepath.Base(name), started.exit, bytes.TrimSpace(output.Bytes()))
	}
	return nil
}

// launch starts cmd on an OS thread that is locked until the program has ended. The kernel signals the program when the
// thread that started it ends (not only the process), so the thread must live as long as the program.
func launch(cmd *exec.Cmd, dir string) (*process, error) {
	cmd.Dir = dir
	cmd.Env = environ()
	if err := isolate(cmd); err != nil {
		return nil, err
	}
	started := make(chan error, 1)
	proc := &process{cmd: cmd, done: make(chan struct{})}
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		proc.exit = cmd.Wait()
		close(proc.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("pgcluster: start: %w", err)
	}
	return proc, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// stop sends the signal and reports whether the program ended in time.
func (p *process) stop(signal syscall.Signal) bool {
	if p.ended() {
		return true
	}
	//nolint:errcheck // fails only if the program ends at this moment, which done tells
	p.cmd.Process.Signal(signal)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.done:
		return true
	case <-timer.C:
		return false
	}
}

// environ is the environment without the variables that steer PostgreSQL programs and without a locale.
func environ() []string {
	var kept []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "PG") && !strings.HasPrefix(variable, "LC_") {
			kept = append(kept, variable)
		}
	}
	return append(kept, "LC_ALL=C")
}
