// Package layer has what all file systems need that are laid over another one of SQLite's.
package layer

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// The functions of SQLite's file systems.
type (
	// OpenFunc opens a file.
	OpenFunc = func(tls *libc.TLS, vfs, name, file uintptr, flags int32, outFlags uintptr) int32
	// DeleteFunc deletes a file.
	DeleteFunc = func(tls *libc.TLS, vfs, name uintptr, syncDir int32) int32
	// CloseFunc closes a file.
	CloseFunc = func(tls *libc.TLS, file uintptr) int32
	// MoveFunc reads or writes.
	MoveFunc = func(tls *libc.TLS, file, buf uintptr, n int32, at int64) int32
	// SyncFunc syncs a file.
	SyncFunc = func(tls *libc.TLS, file uintptr, flags int32) int32
	// CutFunc truncates a file.
	CutFunc = func(tls *libc.TLS, file uintptr, size int64) int32
	// LockFunc takes or releases locks on shared memory.
	LockFunc = func(tls *libc.TLS, file uintptr, first, n, flags int32) int32
	// SizeFunc asks for the size of a file.
	SizeFunc = func(tls *libc.TLS, file, out uintptr) int32
)

// What belongs to memory of SQLite's, by its address.
var (
	systems sync.Map // of a file system of ours: the one below it (uintptr)
	tables  sync.Map // of a table of methods and what changes it: ours in its place (uintptr)
)

// tableKey is a table of methods below, and the first function of ours in its place: two layers have two tables.
type tableKey struct{ below, layer uintptr }

// Register lays a file system over the one of the given name, "" for SQLite's own. Change puts its functions in the place of some of those below. It
// stays registered as long as the process lives.
func Register(below, name string, change func(v *lib.Tsqlite3_vfs)) error {
	tls := libc.NewTLS()
	defer tls.Close()
	find := uintptr(0)
	if below != "" {
		c, err := libc.CString(below)
		if err != nil {
			return err
		}
		defer libc.Xfree(tls, c)
		find = c
	}
	system := lib.Xsqlite3_vfs_find(tls, find)
	if system == 0 {
		return errors.New("there is none below it")
	}
	cName, err := libc.CString(name)
	if err != nil {
		return err
	}
	vfs := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(lib.Tsqlite3_vfs{})))
	if vfs == 0 {
		return errors.New("no memory")
	}
	v := At[lib.Tsqlite3_vfs](vfs)
	*v = *At[lib.Tsqlite3_vfs](system)
	v.FzName, v.FpNext = cName, 0
	change(v)
	systems.Store(vfs, system)
	if rc := lib.Xsqlite3_vfs_register(tls, vfs, 0); rc != lib.SQLITE_OK {
		return fmt.Errorf("SQLite refuses it with %d", rc)
	}
	return nil
}

// Below returns the file system below one of ours.
func Below(vfs uintptr) uintptr {
	system, _ := systems.Load(vfs)
	below, _ := system.(uintptr)
	return below
}

// Wrap gives an open file a table of methods like the one that it has, with some changed. It returns the one that it had. Without
// memory, it reports false and the file is as it was.
func Wrap(tls *libc.TLS, file, layer uintptr, change func(m *lib.Tsqlite3_io_methods)) (lib.Tsqlite3_io_methods, bool) {
	f := At[lib.Tsqlite3_file](file)
	below := *At[lib.Tsqlite3_io_methods](f.FpMethods)
	key := tableKey{f.FpMethods, layer}
	ours, ok := tables.Load(key)
	if !ok {
		table := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(lib.Tsqlite3_io_methods{})))
		if table == 0 {
			return below, false
		}
		m := At[lib.Tsqlite3_io_methods](table)
		*m = below
		change(m)
		ours, _ = tables.LoadOrStore(key, table)
	}
	f.FpMethods = ours.(uintptr) //nolint:forcetypeassert // nothing else is in there
	return below, true
}

// At returns what is at an address of SQLite's memory, which Go's collector knows nothing of.
func At[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

// Address is where a variable of a package is, for SQLite to read. It must not be one of a goroutine's stack, which moves.
func Address[T any](v *T) uintptr { return uintptr(unsafe.Pointer(v)) }

// PointerTo makes a function of a package, not a closure, one that SQLite can call.
func PointerTo[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&f)) }

// Function makes a function of SQLite's one that Go can call.
func Function[F any](address uintptr) F { return *(*F)(unsafe.Pointer(&address)) }

// Bytes returns n bytes of SQLite's memory, which are good as long as SQLite keeps them.
func Bytes(address uintptr, n int) []byte { return unsafe.Slice(At[byte](address), n) }
