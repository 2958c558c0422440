package sim

import (
	"encoding/binary"
	"time"
)

// Actor is somebody in the simulation who acts by itself. All its choices follow from the seed, its name and how many
// it has made before.
type Actor struct {
	seed uint64
	name string
	n    uint64
}

// NewActor returns an actor that has not acted yet.
func NewActor(seed uint64, name string) *Actor { return &Actor{seed: seed, name: name} }

// next returns 64 bits that nobody else gets.
func (a *Actor) next() uint64 {
	a.n++
	return mix(a.seed, a.name, a.n)
}

// mix is a hash whose value is the same in every process (maphash's is not): FNV-1a, then the finaliser of SplitMix64.
func mix(seed uint64, name string, n uint64) uint64 {
	h := uint64(14695981039346656037)
	add := func(b byte) { h = (h ^ uint64(b)) * 1099511628211 }
	var buf [16]byte
	binary.LittleEndian.PutUint64(buf[:8], seed)
	binary.LittleEndian.PutUint64(buf[8:], n)
	for _, b := range buf {
		add(b)
	}
	for i := range len(name) {
		add(name[i])
	}
	h ^= h >> 30
	h *= 0xbf58476d1ce4e5b9
	h ^= h >> 27
	h *= 0x94d049bb133111eb
	return h ^ h>>31
}

// Point is an interaction point: the actor waits for its turn.
func (a *Actor) Point() { time.Sleep(a.delay()) }

// delay is at most about two virtual milliseconds, to the nanosecond.
func (a *Actor) delay() time.Duration { return time.Duration(1 + a.next()%2_000_003) }

// Pick chooses one of n.
func (a *Actor) Pick(n int) int { return int(a.next() % uint64(n)) }

// Chance is true in so many of a thousand cases.
func (a *Actor) Chance(perMille int) bool { return a.Pick(1000) < perMille }

// Read fills p with random bytes, for ids. It never fails.
func (a *Actor) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(a.next())
	}
	return len(p), nil
}
