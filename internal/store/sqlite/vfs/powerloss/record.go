// Package powerloss records what SQLite does to its files, and says what would be found of them if the power failed: what was synced, and of
// what was only written anything at all. It is a test kit.
//
// A workload is executed once, with [Record] on its directory and the file system [Register] below its connections. Then [Recording.Walk] goes through
// the record, and gives the disk as it was at any moment. The shared memory of the log is not recorded: no process survives a loss
// of power.
package powerloss

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"

	"github.com/cairn-workflow/cairn/internal/store/sqlite/vfs/internal/layer"
)

// name is that of the file system.
const name = "cairn-powerloss"

// What is recorded, by directory (*Recording), and what is open, by the address of the file (*handle).
var recordings, handles sync.Map

var register = sync.OnceValue(func() error {
	return layer.Register("", name, func(v *lib.Tsqlite3_vfs) { v.FxOpen, v.FxDelete = layer.PointerTo(open), layer.PointerTo(remove) })
})

// Register returns the name of the file system, over SQLite's own. It records what happens in directories that are being recorded, and leaves
// all others alone.
func Register() (string, error) {
	if err := register(); err != nil {
		return "", fmt.Errorf("the file system %q for SQLite: %w", name, err)
	}
	return name, nil
}

// Recording is what happened to the files of a directory, in order.
type Recording struct {
	dir   string
	start map[string][]byte
	lies  bool

	mu    sync.Mutex
	ops   []op
	files map[string]int // by name: the number of the file that has it now
	next  int
}

// op is one thing that happened.
type op struct {
	kind kind
	file int
	name string // of what is made or deleted
	at   int64  // where it is written, or the size to which it is cut
	data []byte
	upTo int  // of a sync: what was done before this position is safe
	dir  bool // of a sync or a deletion: the names of the directory are safe too
}

type kind int

const (
	make_ kind = iota
	write
	cut
	syncs
	deletes
)

// Record begins to record a directory. What is in it now is taken to be safe. End must be called.
func Record(dir string) (*Recording, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	r := &Recording{dir: dir, start: map[string][]byte{}, files: map[string]int{}}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, err
		}
		r.start[entry.Name()] = content
		r.files[entry.Name()] = r.next
		r.ops = append(r.ops, op{kind: make_, file: r.next, name: entry.Name()})
		r.next++
	}
	recordings.Store(dir, r)
	return r, nil
}

// RecordLyingDisk is [Record] for a disk whose syncs do nothing: a planted bug.
func RecordLyingDisk(dir string) (*Recording, error) {
	r, err := Record(dir)
	if err == nil {
		r.lies = true
	}
	return r, err
}

// End stops recording.
func (r *Recording) End() { recordings.Delete(r.dir) }

// Now returns how many things have happened. What was acknowledged by now must be found if the power fails now or later.
func (r *Recording) Now() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ops)
}

// Syncs returns the positions of all syncs: the power can fail there, before the sync has an effect, or one later.
func (r *Recording) Syncs() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []int
	for i := range r.ops {
		if r.ops[i].kind == syncs {
			all = append(all, i)
		}
	}
	return all
}

// Begun returns how often a file was written from its beginning: a log is, when it begins anew.
func (r *Recording) Begun(file string) (begun int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	numbers := map[int]bool{} // a file that was deleted and made again has two
	for i := range r.ops {
		switch o := &r.ops[i]; {
		case o.kind == make_ && o.name == file:
			numbers[o.file] = true
		case o.kind == write && numbers[o.file] && o.at == 0:
			begun++
		}
	}
	return begun
}

func (r *Recording) add(o op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops = append(r.ops, o)
}

// opened returns the number of the file with a name, which is made if there was none.
func (r *Recording) opened(file string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	number, ok := r.files[file]
	if !ok {
		number = r.next
		r.next++
		r.files[file] = number
		r.ops = append(r.ops, op{kind: make_, file: number, name: file})
	}
	return number
}

func (r *Recording) deleted(file string, dir bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.files[file]; ok {
		delete(r.files, file)
		r.ops = append(r.ops, op{kind: deletes, name: file, dir: dir})
	}
}

// recordingOf returns who records the directory of a file, and the file's name in it.
func recordingOf(path uintptr) (*Recording, string) {
	if path == 0 {
		return nil, ""
	}
	dir, file := filepath.Split(libc.GoString(path))
	found, _ := recordings.Load(filepath.Clean(dir))
	r, _ := found.(*Recording)
	return r, file
}

// handle is an open file.
type handle struct {
	below     lib.Tsqlite3_io_methods
	recording *Recording
	file      int
	// syncsDir says that SQLite's own file system syncs the directory with the first sync of the file: with those that it makes for logs and journals.
	syncsDir bool
}

func handleOf(file uintptr) *handle {
	h, _ := handles.Load(file)
	return h.(*handle) //nolint:forcetypeassert // only files with a handle have our methods
}

func open(tls *libc.TLS, vfs, path, file uintptr, flags int32, outFlags uintptr) int32 {
	below := layer.Below(vfs)
	rc := layer.Function[layer.OpenFunc](layer.At[lib.Tsqlite3_vfs](below).FxOpen)(tls, below, path, file, flags, outFlags)
	r, base := recordingOf(path)
	if rc != lib.SQLITE_OK || r == nil {
		return rc
	}
	methods, ok := layer.Wrap(tls, file, layer.PointerTo(open), func(m *lib.Tsqlite3_io_methods) {
		m.FxWrite, m.FxTruncate = layer.PointerTo(writeFile), layer.PointerTo(truncateFile)
		m.FxSync, m.FxClose = layer.PointerTo(syncFile), layer.PointerTo(closeFile)
	})
	if !ok {
		return lib.SQLITE_NOMEM
	}
	const journals = lib.SQLITE_OPEN_WAL | lib.SQLITE_OPEN_MAIN_JOURNAL | lib.SQLITE_OPEN_SUPER_JOURNAL
	handles.Store(file, &handle{
		below: methods, recording: r, file: r.opened(base), syncsDir: flags&lib.SQLITE_OPEN_CREATE != 0 && flags&journals != 0,
	})
	return lib.SQLITE_OK
}

func remove(tls *libc.TLS, vfs, path uintptr, syncDir int32) int32 {
	below := layer.Below(vfs)
	rc := layer.Function[layer.DeleteFunc](layer.At[lib.Tsqlite3_vfs](below).FxDelete)(tls, below, path, syncDir)
	if r, base := recordingOf(path); r != nil && rc == lib.SQLITE_OK {
		r.deleted(base, syncDir != 0)
	}
	return rc
}

func writeFile(tls *libc.TLS, file, buf uintptr, n int32, at int64) int32 {
	h := handleOf(file)
	data := append([]byte(nil), layer.Bytes(buf, int(n))...)
	h.recording.add(op{kind: write, file: h.file, at: at, data: data})
	return layer.Function[layer.MoveFunc](h.below.FxWrite)(tls, file, buf, n, at)
}

func truncateFile(tls *libc.TLS, file uintptr, size int64) int32 {
	h := handleOf(file)
	h.recording.add(op{kind: cut, file: h.file, at: size})
	return layer.Function[layer.CutFunc](h.below.FxTruncate)(tls, file, size)
}

func syncFile(tls *libc.TLS, file uintptr, flags int32) int32 {
	h := handleOf(file)
	upTo := h.recording.Now() // what others write while it syncs is not safe
	rc := layer.Function[layer.SyncFunc](h.below.FxSync)(tls, file, flags)
	if rc == lib.SQLITE_OK && !h.recording.lies {
		h.recording.add(op{kind: syncs, file: h.file, upTo: upTo, dir: h.syncsDir})
		h.syncsDir = false
	}
	return rc
}

func closeFile(tls *libc.TLS, file uintptr) int32 {
	h := handleOf(file)
	handles.Delete(file)
	return layer.Function[layer.CloseFunc](h.below.FxClose)(tls, file)
}
