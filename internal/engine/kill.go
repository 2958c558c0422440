package engine

import "context"

// Kill ends the engine as kill -9 would: nothing more is written, nothing is given back. It is for tests.
func (e *Engine) Kill() {
	e.mu.Lock()
	e.stopped = true
	all := make([]*exec, 0, len(e.execs))
	for _, x := range e.execs {
		all = append(all, x)
	}
	e.mu.Unlock()
	e.kill()
	e.timers.stop()
	for _, x := range all {
		x.leave(ErrStopped)
	}
	e.work.Wait()
	over, cancel := context.WithCancel(context.Background())
	cancel()
	_ = e.committer.Close(over)
}
