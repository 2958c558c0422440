//go:build linux || darwin || freebsd

package show

import (
	"os"
	"syscall"
	"unsafe"
)

// sizeOf returns how wide and high a terminal is, and false if that cannot be found out.
func sizeOf(file *os.File) (width, height int, ok bool) {
	var size struct{ rows, columns, x, y uint16 }
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, file.Fd(), syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size)))
	return int(size.columns), int(size.rows), errno == 0 && size.columns > 0 && size.rows > 0
}
