package torture

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// aloneVariable says that this process lives in a mount namespace of its own.
const aloneVariable = "CAIRN_TORTURE_ALONE"

// Alone executes this program again in a mount namespace of its own, so that what it mounts is gone with it, however it ends. It reports false where that is not
// possible or has been done: then the caller goes on.
func Alone(ctx context.Context, args []string) (bool, error) {
	program, err := os.Executable()
	if err != nil || os.Getenv(aloneVariable) != "" {
		return false, nil
	}
	runtime.LockOSThread() // the kernel ends the program with the thread that started it
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), aloneVariable+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = patience
	if !alone(cmd) || cmd.Start() != nil {
		return false, nil
	}
	return true, cmd.Wait()
}
