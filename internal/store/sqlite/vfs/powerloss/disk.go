package powerloss

import (
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
)

// sector is what a disk writes whole or not at all.
const sector = 512

// Loss is what becomes of that which was written and not synced.
type Loss int

// The losses.
const (
	Unsynced Loss = iota // all of it is lost
	Nothing              // none is, as when only the process dies
	Late                 // what was written after some moment is lost
	Writes               // some writes are lost
	Sectors              // some sectors of writes are lost, and zeros may be in their place
	losses
)

// Losses returns all of them.
func Losses() []Loss {
	all := make([]Loss, losses)
	for i := range all {
		all[i] = Loss(i)
	}
	return all
}

// String returns the loss in words.
func (l Loss) String() string {
	return []string{"all that is not synced", "nothing", "what was written late", "some writes", "some sectors"}[l]
}

// Disk is what is on a disk at a moment.
type Disk struct {
	files map[int]*file
	names map[string]int // as programs see them
	safe  map[string]int // as they are found for sure
}

// file is what is safe, and what was done to it since.
type file struct {
	safe    []byte
	pending []numbered
}

type numbered struct {
	op
	no int
}

// Walk goes through what happened, and calls look with the disk at each of the positions, which must be in order. Look must not change it.
func (r *Recording) Walk(positions []int, look func(position int, d *Disk)) {
	r.mu.Lock()
	ops := slices.Clone(r.ops)
	r.mu.Unlock()
	d := &Disk{files: map[int]*file{}, names: map[string]int{}, safe: map[string]int{}}
	next := 0
	for _, position := range positions {
		for ; next < max(min(position, len(ops)), len(r.start)); next++ {
			d.apply(next, ops[next])
			if next == len(r.start)-1 {
				d.begin(r.start)
			}
		}
		look(position, d)
	}
}

// begin takes the files that were there before, which were made first, to be safe.
func (d *Disk) begin(start map[string][]byte) {
	for name, number := range d.names {
		d.files[number].safe = slices.Clone(start[name])
	}
	d.safe = maps.Clone(d.names)
}

func (d *Disk) apply(no int, o op) {
	switch o.kind {
	case make_:
		d.files[o.file] = &file{}
		d.names[o.name] = o.file
	case write, cut:
		f := d.files[o.file]
		f.pending = append(f.pending, numbered{o, no})
	case syncs:
		d.files[o.file].sync(o.upTo)
	case deletes:
		delete(d.names, o.name)
	}
	if o.dir {
		d.safe = maps.Clone(d.names)
	}
}

func (f *file) sync(upTo int) {
	i := 0
	for ; i < len(f.pending) && f.pending[i].no < upTo; i++ {
		f.safe = f.pending[i].on(f.safe)
	}
	f.pending = slices.Clone(f.pending[i:])
}

// on does a write or a cut to content.
func (o op) on(content []byte) []byte {
	if o.kind == cut {
		return resize(content, o.at)
	}
	content = resize(content, max(int64(len(content)), o.at+int64(len(o.data))))
	copy(content[o.at:], o.data)
	return content
}

func resize(content []byte, size int64) []byte {
	if int64(len(content)) >= size {
		return content[:size:size]
	}
	return append(content, make([]byte, size-int64(len(content)))...)
}

// Find writes into a directory what would be found after a loss of power.
func (d *Disk) Find(dir string, loss Loss, rnd *rand.Rand) error {
	all := map[string]bool{}
	for name := range d.names {
		all[name] = true
	}
	for name := range d.safe {
		all[name] = true
	}
	latest := d.latest(rnd)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		number, ok := d.named(name, loss, rnd)
		if !ok {
			continue
		}
		content := d.files[number].found(loss, latest, rnd)
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// named returns the file that has a name: the new one or the old one, where that is not safe.
func (d *Disk) named(name string, loss Loss, rnd *rand.Rand) (int, bool) {
	names := d.names
	if loss == Unsynced || loss != Nothing && rnd.IntN(2) == 0 {
		names = d.safe
	}
	number, ok := names[name]
	return number, ok
}

// latest draws a moment: what was written at it and later is lost, if [Late] is.
func (d *Disk) latest(rnd *rand.Rand) int {
	var moments []int
	for _, number := range slices.Sorted(maps.Keys(d.files)) {
		for _, p := range d.files[number].pending {
			moments = append(moments, p.no)
		}
	}
	if len(moments) == 0 {
		return 0
	}
	return moments[rnd.IntN(len(moments))]
}

func (f *file) found(loss Loss, latest int, rnd *rand.Rand) []byte {
	content := slices.Clone(f.safe)
	for _, p := range f.pending {
		switch {
		case loss == Unsynced, loss == Late && p.no >= latest, loss == Writes && rnd.IntN(2) == 0:
		case loss == Sectors && p.kind == write:
			content = p.torn(content, rnd)
		case loss == Sectors && rnd.IntN(2) == 0:
		default:
			content = p.on(content)
		}
	}
	return content
}

// torn writes some sectors of a write. Now and then the file has its new size without its content.
func (o op) torn(content []byte, rnd *rand.Rand) []byte {
	if rnd.IntN(4) == 0 {
		content = resize(content, max(int64(len(content)), o.at+int64(len(o.data))))
	}
	for from := o.at; from < o.at+int64(len(o.data)); {
		to := min(from/sector*sector+sector, o.at+int64(len(o.data)))
		if rnd.IntN(2) == 0 {
			content = op{kind: write, at: from, data: o.data[from-o.at : to-o.at]}.on(content)
		}
		from = to
	}
	return content
}
