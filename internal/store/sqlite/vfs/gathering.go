// Package vfs has a file system for SQLite that makes it cheaper to append to a write-ahead log.
//
// It gathers. SQLite writes each page of a commit with two calls of the system. This file system keeps what is appended to a log, and writes all of it with one call when
// the last page of a commit has come, or the log is read, synced, or anything else is done with it. Others never miss what is kept back: they read a page of
// the log only after its commit was announced. A process that dies before had not committed. What is kept back of a transaction that is rolled back is forgotten before anybody else may
// write: their pages come to the same place.
//
// And it makes room. To sync a file that has grown, the system also writes where its new blocks are; to sync one whose blocks were there before it need not, and is nearly twice as
// fast. So a log that has come to its end is made longer by more than is needed, with zeros: a page of zeros is none, and whoever reads the log ends there.
// Only who has the lock to write does that, and beyond the end of the file, so nobody else can have written there.
package vfs

import (
	"fmt"
	"sync"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"

	"github.com/cairn-workflow/cairn/internal/store/sqlite/vfs/internal/layer"
)

// maxGathered is how much of a log is kept back at most. SQLite's own file system writes less than 128 KiB with one call.
const maxGathered = 120 << 10

// roomMade is by how much a log is made longer than it needs to be. More would make the commit that has to wait for it noticeably slower.
const roomMade = 256 << 10

// zeros are what room is made of.
var zeros [64 << 10]byte

var registered struct {
	sync.Mutex
	names map[string]string // by the file system below
}

// Gathering returns the name of a file system that gathers, for the parameter vfs of a connection. Below is the file system that it is laid over, ""
// for SQLite's own. It stays registered as long as the process lives.
func Gathering(below string) (string, error) {
	registered.Lock()
	defer registered.Unlock()
	if name := registered.names[below]; name != "" {
		return name, nil
	}
	for _, name := range registered.names {
		if name == below {
			return name, nil // it gathers already
		}
	}
	name := "cairn-gathering"
	if below != "" {
		name += "-" + below
	}
	if err := layer.Register(below, name, func(v *lib.Tsqlite3_vfs) { v.FxOpen = layer.PointerTo(open) }); err != nil {
		return "", fmt.Errorf("the file system %q for SQLite: %w", name, err)
	}
	if registered.names == nil {
		registered.names = map[string]string{}
	}
	registered.names[below] = name
	return name, nil
}

// What is open, by its address.
var (
	databases sync.Map // *database
	logs      sync.Map // *log
)

// database is an open database. One connection uses it, and the log that belongs to it.
type database struct {
	below lib.Tsqlite3_io_methods
	log   *log // nil while it is not open
}

// log is an open log.
type log struct {
	below   lib.Tsqlite3_io_methods
	of      *database
	end     int64   // of what was written last
	size    int     // how much before the end is kept back
	buf     uintptr // where: C memory of maxGathered bytes; 0: none yet
	commits bool    // the page that follows is the last one of a commit
	room    int64   // up to where the file has blocks, as far as is known
}

// Before each page is a header. It says how large the database is after the commit if the page is its last one, and 0 otherwise.
const (
	frameHeader    = 24
	sizeInTheFrame = 4
)

// open opens a file. Logs, and the databases to which they belong, are ours, all others are those of the file system below.
func open(tls *libc.TLS, vfs, name, file uintptr, flags int32, outFlags uintptr) int32 {
	below := layer.Below(vfs)
	rc := layer.Function[layer.OpenFunc](layer.At[lib.Tsqlite3_vfs](below).FxOpen)(tls, below, name, file, flags, outFlags)
	if rc != lib.SQLITE_OK {
		return rc
	}
	// Without memory, it is as if there were no such file system.
	switch {
	case flags&lib.SQLITE_OPEN_MAIN_DB != 0:
		methods, ok := layer.Wrap(tls, file, layer.PointerTo(lock), func(m *lib.Tsqlite3_io_methods) {
			m.FxShmLock, m.FxClose = layer.PointerTo(lock), layer.PointerTo(closeDatabase)
		})
		if ok {
			databases.Store(file, &database{below: methods})
		}
	case flags&lib.SQLITE_OPEN_WAL != 0:
		of, ok := databases.Load(lib.Xsqlite3_database_file_object(tls, name))
		if !ok {
			break
		}
		methods, ok := layer.Wrap(tls, file, layer.PointerTo(open), func(m *lib.Tsqlite3_io_methods) {
			m.FxWrite, m.FxRead, m.FxSync = layer.PointerTo(write), layer.PointerTo(read), layer.PointerTo(syncLog)
			m.FxTruncate, m.FxFileSize, m.FxClose = layer.PointerTo(truncate), layer.PointerTo(fileSize), layer.PointerTo(closeLog)
		})
		if ok {
			d := of.(*database) //nolint:forcetypeassert // nothing else is in there
			d.log = &log{below: methods, of: d}
			logs.Store(file, d.log)
		}
	}
	return lib.SQLITE_OK
}

// writeLock is the first of the locks on the memory that connections share. Who has it may write to the log.
const writeLock = 0

// lock takes or releases locks. With the lock to write goes what was kept back and not committed.
func lock(tls *libc.TLS, file uintptr, first, n, flags int32) int32 {
	of, _ := databases.Load(file)
	d := of.(*database) //nolint:forcetypeassert // only databases that are there have our methods
	if first == writeLock && flags == lib.SQLITE_SHM_UNLOCK|lib.SQLITE_SHM_EXCLUSIVE && d.log != nil {
		d.log.size = 0
	}
	return layer.Function[layer.LockFunc](d.below.FxShmLock)(tls, file, first, n, flags)
}

func closeDatabase(tls *libc.TLS, file uintptr) int32 {
	of, _ := databases.LoadAndDelete(file)
	return layer.Function[layer.CloseFunc](of.(*database).below.FxClose)(tls, file) //nolint:forcetypeassert // as above
}

func logOf(file uintptr) *log {
	l, _ := logs.Load(file)
	return l.(*log) //nolint:forcetypeassert // only files with a log have our methods
}

func write(tls *libc.TLS, file, buf uintptr, n int32, offset int64) int32 {
	l := logOf(file)
	if offset != l.end || l.size+int(n) > maxGathered {
		if rc := l.flush(tls, file); rc != lib.SQLITE_OK {
			return rc
		}
	}
	if l.buf == 0 {
		l.buf = libc.Xmalloc(tls, maxGathered)
	}
	if offset != l.end || l.buf == 0 || int(n) > maxGathered { // it is not appended, or cannot be kept
		if rc := layer.Function[layer.MoveFunc](l.below.FxWrite)(tls, file, buf, n, offset); rc != lib.SQLITE_OK {
			return rc
		}
	} else {
		libc.Xmemcpy(tls, l.buf+uintptr(l.size), buf, libc.Tsize_t(n))
		l.size += int(n)
	}
	l.end = offset + int64(n)
	if n == frameHeader {
		l.commits = *layer.At[uint32](buf + sizeInTheFrame) != 0
		return lib.SQLITE_OK
	}
	if l.commits {
		l.commits = false
		return l.flush(tls, file)
	}
	return lib.SQLITE_OK
}

// flush writes what was kept back. What could not be written is forgotten: the commit fails, and its pages are written anew.
func (l *log) flush(tls *libc.TLS, file uintptr) int32 {
	n := l.size
	if n == 0 {
		return lib.SQLITE_OK
	}
	l.size = 0
	grows := l.end > l.room && l.end > l.length(tls, file)
	rc := layer.Function[layer.MoveFunc](l.below.FxWrite)(tls, file, l.buf, int32(n), l.end-int64(n))
	if rc == lib.SQLITE_OK && grows {
		l.makeRoom(tls, file)
	}
	return rc
}

// length asks how long the file is: another connection may have made room, or begun the log anew.
func (l *log) length(tls *libc.TLS, file uintptr) int64 {
	out := libc.Xmalloc(tls, 8)
	if out == 0 {
		return l.room
	}
	defer libc.Xfree(tls, out)
	if layer.Function[layer.SizeFunc](l.below.FxFileSize)(tls, file, out) == lib.SQLITE_OK {
		l.room = *layer.At[int64](out)
	}
	return l.room
}

// makeRoom makes the file longer than it needs to be. Where that fails, on a disk that is nearly full, the file grows with what is written to it, and the next to reach its
// end tries again.
func (l *log) makeRoom(tls *libc.TLS, file uintptr) {
	for l.room = l.end; l.room < l.end+roomMade; l.room += int64(len(zeros)) {
		if rc := layer.Function[layer.MoveFunc](l.below.FxWrite)(tls, file, layer.Address(&zeros[0]), int32(len(zeros)), l.room); rc != lib.SQLITE_OK {
			return
		}
	}
}

func read(tls *libc.TLS, file, buf uintptr, n int32, at int64) int32 {
	l := logOf(file)
	if rc := l.flush(tls, file); rc != lib.SQLITE_OK {
		return rc
	}
	return layer.Function[layer.MoveFunc](l.below.FxRead)(tls, file, buf, n, at)
}

func syncLog(tls *libc.TLS, file uintptr, flags int32) int32 {
	l := logOf(file)
	if rc := l.flush(tls, file); rc != lib.SQLITE_OK {
		return rc
	}
	return layer.Function[layer.SyncFunc](l.below.FxSync)(tls, file, flags)
}

func truncate(tls *libc.TLS, file uintptr, size int64) int32 {
	l := logOf(file)
	if rc := l.flush(tls, file); rc != lib.SQLITE_OK {
		return rc
	}
	l.room = min(l.room, size)
	return layer.Function[layer.CutFunc](l.below.FxTruncate)(tls, file, size)
}

func fileSize(tls *libc.TLS, file, out uintptr) int32 {
	l := logOf(file)
	if rc := l.flush(tls, file); rc != lib.SQLITE_OK {
		return rc
	}
	return layer.Function[layer.SizeFunc](l.below.FxFileSize)(tls, file, out)
}

func closeLog(tls *libc.TLS, file uintptr) int32 {
	l := logOf(file)
	if l.buf != 0 {
		libc.Xfree(tls, l.buf)
	}
	l.of.log = nil
	logs.Delete(file)
	return layer.Function[layer.CloseFunc](l.below.FxClose)(tls, file)
}
