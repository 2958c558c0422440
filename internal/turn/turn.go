// Package turn is where a simulation decides who goes on first.
//
// What goroutines do that could go on at the same instant comes in an order that is up to the scheduler. In a simulation it must follow from the seed. So a goroutine that
// was just begun, or that was woken by another one which goes on itself, takes its turn before it does anything that others could notice.
package turn

import "fmt"

// Taker waits until it is somebody's turn. Who and n tell those apart who wait at the same time. A nil one lets everybody go on at once, as it is outside of simulations.
type Taker func(who string, n int64)

// Of returns a taker for those who belong to somebody.
func (t Taker) Of(owner string, no int64) Taker {
	if t == nil {
		return nil
	}
	return func(who string, n int64) { t(fmt.Sprintf("%s %d: %s", owner, no, who), n) }
}

// Take waits for the turn. No lock is held meanwhile.
func (t Taker) Take(who string, n int64) {
	if t != nil {
		t(who, n)
	}
}
