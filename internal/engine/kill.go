package engine

// Kill ends the engine as kill -9 would: nothing more is written, nothing is given back. It is for tests.
func (e *Engine) Kill() {
	e.mu.Lock()
	e.stopped = true
	e.mu.Unlock()
	e.kill()
	e.timers.stop()
	for _, x := range e.all() {
		x.leave(ErrStopped)
	}
	e.work.Wait()
	_ = e.self().committer.Abort()
}
