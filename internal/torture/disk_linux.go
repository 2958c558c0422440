package torture

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// roomy is the size of the small file system while it is not full.
const roomy = "size=4g"

// alone makes the command live in a mount namespace of its own: what it mounts is gone with it, however it ends. The terminal's signals are kept from it:
// it gets them from this process, and a second one would end it before it has cleaned up.
func alone(cmd *exec.Cmd) bool {
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL, Setpgid: true}
	return true
}

// mountSmall mounts a file system in memory on a directory.
func mountSmall(dir string) error {
	if os.Getenv(aloneVariable) == "" {
		return fmt.Errorf("no mount namespace: %w", os.ErrPermission)
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	return syscall.Mount("tmpfs", dir, "tmpfs", 0, roomy+",mode=755")
}

// fill leaves no room in the file system that is mounted on a directory, but for some pages.
func fill(dir string) error {
	for pages := uint64(4); ; pages *= 2 {
		var s syscall.Statfs_t
		if err := syscall.Statfs(dir, &s); err != nil {
			return err
		}
		used := (s.Blocks - s.Bfree + pages) * uint64(s.Bsize)
		err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, fmt.Sprintf("size=%d", used))
		if !errors.Is(err, syscall.EINVAL) || used > s.Blocks*uint64(s.Bsize) { // more is in use by now
			return err
		}
	}
}

// empty makes room again.
func empty(dir string) error {
	return syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, roomy)
}

// unmount removes the small file system.
func unmount(d *database) error {
	if d.full != nil {
		return nil //nolint:nilerr // there is none
	}
	return syscall.Unmount(d.dir, syscall.MNT_DETACH)
}
