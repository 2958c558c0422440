package torture

import (
	"os/exec"
	"syscall"
	"time"
)

// bindToParent makes the kernel kill the process with this one, and keeps the terminal's signals from it.
func bindToParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// stand lets the process stand still for a while.
func (l *life) stand(d time.Duration) {
	from := time.Now()
	_ = l.cmd.Process.Signal(syscall.SIGSTOP) // it fails only if it has just ended
	time.Sleep(d)
	_ = l.cmd.Process.Signal(syscall.SIGCONT)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = append(l.stopped, pauseSpan{from, time.Now()})
}
