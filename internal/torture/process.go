package torture

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// patience is how long a process that was asked to stop may take, and everything else that should be quick.
const patience = 20 * time.Second

// place is where a process lives; when it has died, the next one begins there.
type place struct {
	name    string
	role    string
	program string
	dir     string
	member  member
	oneBook bool // all lives write to one diary

	mu      sync.Mutex
	lives   int
	now     *life
	past    []*life // all of them
	away    bool    // somebody is about to begin the next life
	retired bool
	wrong   func(format string, args ...any)
}

// life is one process.
type life struct {
	name string
	cmd  *exec.Cmd
	log  string
	done chan struct{}

	mu      sync.Mutex
	err     error
	wanted  bool // that it ends
	stopped []pauseSpan
}

// pauseSpan is when a process stood still because it was told to.
type pauseSpan struct{ from, to time.Time }

// begin starts the next process of the place, unless there is one.
func (p *place) begin() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.retired || p.now != nil && !p.now.ended() {
		return nil
	}
	p.lives++
	name := fmt.Sprintf("%s-%d", p.name, p.lives)
	m, book := p.member, name
	if p.oneBook {
		book = p.name
	}
	m.diary = filepath.Join(p.dir, book+diarySuffix)
	l, err := launch(name, filepath.Join(p.dir, name+".log"), p.program, m.args(p.role))
	if err != nil {
		return err
	}
	p.now, p.past = l, append(p.past, l)
	go func() {
		<-l.done
		if l.isWanted() {
			return
		}
		p.wrong("%s ended by itself: %v\n%s", l.name, l.err, tail(l.log))
		_ = p.begin() // what is wrong is said; the others go on
	}()
	return nil
}

// launch starts a process on a thread that lives as long as it does: the kernel ends it with that thread.
func launch(name, log, program string, args []string) (*life, error) {
	output, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer output.Close() //nolint:errcheck // the process has its own copy
	//nolint:noctx // it is ended by signals
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = output, output
	bindToParent(cmd)
	l := &life{name: name, cmd: cmd, log: log, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			l.err = cmd.Wait()
			close(l.done)
		}
	}()
	return l, <-started
}

func (l *life) ended() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

func (l *life) isWanted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wanted
}

func (l *life) want() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wanted = true
}

// kill ends the process at once, and returns when it is gone.
func (l *life) kill() {
	l.want()
	_ = l.cmd.Process.Kill() // it fails only if it has just ended
	<-l.done
}

// end asks the process to stop. One that does not is killed, and that is an error.
func (l *life) end(within time.Duration) error {
	l.want()
	_ = l.cmd.Process.Signal(syscall.SIGTERM) // it fails only if it has just ended
	if !l.waitFor(within) {
		_ = l.cmd.Process.Signal(syscall.SIGQUIT) // so that its log says what it does
		l.waitFor(time.Second)
		l.kill()
		return fmt.Errorf("%s did not end within %s\n%s", l.name, within, tail(l.log))
	}
	if l.err != nil && !l.diedOf(syscall.SIGTERM) { // it had not come to listen for signals
		return fmt.Errorf("%s did not end well: %w\n%s", l.name, l.err, tail(l.log))
	}
	return nil
}

// waitFor waits for the end of the process, and reports whether it came in time.
func (l *life) waitFor(within time.Duration) bool {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-l.done:
		return true
	case <-timer.C:
		return false
	}
}

func (l *life) diedOf(signal syscall.Signal) bool {
	status, ok := l.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == signal
}

// take returns the process of the place and keeps others from it, nil if there is none to be had.
func (p *place) take() *life {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.retired || p.away || p.now == nil || p.now.ended() {
		return nil
	}
	p.away = true
	return p.now
}

// release lets others have the place again, with a living process.
func (p *place) release() error {
	p.mu.Lock()
	p.away = false
	p.mu.Unlock()
	return p.begin()
}

// retire lets no process begin any more, and returns the last one.
func (p *place) retire() *life {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.retired = true
	return p.now
}

// finish asks the process of the place to do what is left to do, and to end. One that did not listen for signals yet has done nothing: another one begins.
func (p *place) finish(within time.Duration) error {
	for {
		last := p.retire()
		if err := last.end(within); err != nil || !last.diedOf(syscall.SIGTERM) {
			return err
		}
		p.mu.Lock()
		p.retired = false
		p.mu.Unlock()
		if err := p.begin(); err != nil {
			return err
		}
		time.Sleep(again) // it needs a moment to come to listen
	}
}

// tail returns the end of a log.
func tail(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(content[max(0, len(content)-4000):])
}
