package torture

import "time"

// The kinds of blows.
const (
	blowKill       = "kill"        // kill -9 of a worker
	blowKillClient = "kill client" // kill -9 of a client
	blowStop       = "stop"        // a worker stands still for longer than the lease, and comes back
	blowEnd        = "end"         // a worker is stopped in an orderly way, as a deploy does
	blowRestart    = "restart"     // the server is restarted in an orderly way
	blowCrash      = "crash"       // the server is ended without a checkpoint, and started later
	blowCut        = "cut"         // connections to the server are ended
	blowFull       = "full"        // the disk of the database is full
)

// blow is one thing that is done to the processes or to the database.
type blow struct {
	After time.Duration // the blow before
	Kind  string
	Place int           // of the process
	Lasts time.Duration // until the process or the server comes back
	Share float64       // of the connections that are cut
}

// deckOf returns the blows that a store is dealt, over and over, each time in another order: so a short torture has all of them, too.
func deckOf(postgres, full bool) (deck []string) {
	add := func(kind string, n int) {
		for range n {
			deck = append(deck, kind)
		}
	}
	add(blowKill, 11)
	add(blowKillClient, 1)
	add(blowStop, 3)
	add(blowEnd, 1)
	if postgres {
		add(blowRestart, 1)
		add(blowCrash, 1)
		add(blowCut, 3)
	}
	if full {
		add(blowFull, 1)
	}
	return deck
}

// blowsOf returns a function that returns one blow after the other.
func blowsOf(seed uint64, deck []string, every, lease time.Duration) func() blow {
	r, left := stranger(seed, "blows"), []string(nil)
	return func() blow {
		if len(left) == 0 {
			left = append(left, deck...)
			r.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
		}
		b := blow{Kind: left[0], Place: r.IntN(1 << 16), After: every/2 + time.Duration(r.Int64N(int64(every))), Share: 0.2 + 0.8*r.Float64()}
		left = left[1:]
		switch half := time.Duration(r.Int64N(int64(lease / 2))); b.Kind {
		case blowStop:
			b.Lasts = lease + 2*half
		case blowCrash, blowFull:
			b.Lasts = 3 * half
		default:
			if r.IntN(2) == 0 { // half of the processes come back at once
				b.Lasts = 4 * half
			}
		}
		return b
	}
}
