package wait

import (
	"context"
	"sync"
	"time"

	"github.com/cairn-workflow/cairn"
)

type shop struct {
	sync.Mutex
	stock   sync.RWMutex
	reserve cairn.Step[int, int]
	open    bool
	n       int
}

func (s *shop) held(ctx cairn.Context) error {
	s.Lock()
	_ = cairn.Sleep(ctx, time.Hour) // want `cairn.Sleep is a durable call while s is locked: others wait for as long as the run does; .* \[wait\]`
	s.Unlock()
	s.stock.RLock()
	defer s.stock.RUnlock()
	_, err := s.reserve.Do(ctx, s.n) // want `s.reserve.Do is a durable call while s.stock \(for reading\) is locked`
	return err
}

func (s *shop) onEachPath(ctx cairn.Context) {
	s.stock.Lock()
	if s.open {
		s.stock.Unlock()
		return
	}
	for range 3 {
		_ = cairn.Sleep(ctx, 1) // want `while s.stock is locked`
		if s.n > 0 {
			continue
		}
		s.n++
	}
	s.stock.Unlock()
	_ = cairn.Sleep(ctx, 1)
	for range 3 {
		s.Lock()
		s.stock.Lock()
		_ = cairn.Sleep(ctx, 1) // want `while s, s.stock is locked`
		s.stock.Unlock()
		s.Unlock()
		_ = cairn.Sleep(ctx, 1)
	}
}

// The graph does not know that it is the same condition.
func (s *shop) underCondition(ctx cairn.Context) {
	if s.open {
		s.Lock()
	} else {
		s.n--
	}
	s.n++
	if s.open {
		s.Unlock()
	}
	_ = cairn.Sleep(ctx, 1)
}

func (s *shop) throughClosure(ctx cairn.Context) {
	wait := func() { _ = cairn.Sleep(ctx, 1) }
	s.Lock()
	defer s.Unlock()
	wait()                               // want `wait is a durable call while s is locked`
	func() { _ = cairn.Sleep(ctx, 1) }() // want `this function is a durable call while s is locked`
}

func (s *shop) inBranch(ctx cairn.Context) error {
	s.Lock()
	s.n++
	s.Unlock()
	_, err := cairn.Go(ctx, "branch", func(ctx cairn.Context) (int, error) {
		s.Lock()
		defer s.Unlock()
		return s.reserve.Do(ctx, 1) // want `while s is locked`
	})
	return err
}

func (s *shop) short(ctx cairn.Context) error {
	if s.open {
		s.Lock()
		defer s.Unlock()
		s.n++
		return nil
	}
	s.stock.RLock()
	n := s.n
	s.stock.RUnlock()
	func() {
		s.Lock()
		defer s.Unlock()
		s.n = n
		println(cairn.RunID(ctx))
	}()
	return cairn.Sleep(ctx, time.Hour)
}

func (s *shop) inStep(ctx cairn.Context) (int, error) {
	return cairn.Do(ctx, "step", func(context.Context) (int, error) {
		s.Lock()
		defer s.Unlock()
		return s.n, nil
	})
}
