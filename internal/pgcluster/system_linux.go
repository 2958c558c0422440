package pgcluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// ownerFile is locked by the process that owns the directory, for as long as it lives.
const ownerFile = "owner.lock"

// isolate makes the kernel end the program with this process, keeps the terminal's signals from it, and takes root from it.
func isolate(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT, Setpgid: true}
	if os.Geteuid() != 0 {
		return nil
	}
	credential, err := lesserUser()
	cmd.SysProcAttr.Credential = credential
	return err
}

// giveAway makes dir the property of the user that the server runs as.
func giveAway(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	credential, err := lesserUser()
	if err != nil {
		return err
	}
	return os.Chown(dir, int(credential.Uid), int(credential.Gid))
}

// lesserUser is who runs the server in place of root.
func lesserUser() (*syscall.Credential, error) {
	account, err := user.Lookup("postgres")
	if err != nil {
		account, err = user.Lookup("nobody")
	}
	if err != nil {
		return nil, fmt.Errorf("pgcluster: PostgreSQL does not run as root, and no other user is known: %w", err)
	}
	uid, err := strconv.ParseUint(account.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("pgcluster: user %s: %w", account.Username, err)
	}
	gid, err := strconv.ParseUint(account.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("pgcluster: user %s: %w", account.Username, err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// makeOwnedDir makes a directory below parent and locks its owner file. The lock is taken before the file gets its name,
// so that removeOrphans of another process never sees it unlocked.
func makeOwnedDir(parent string) (string, *os.File, error) {
	dir, err := os.MkdirTemp(parent, dirPrefix)
	if err != nil {
		return "", nil, fmt.Errorf("pgcluster: %w", err)
	}
	owner, err := os.CreateTemp(dir, "owner-")
	if err == nil {
		err = syscall.Flock(int(owner.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err == nil {
		err = os.Rename(owner.Name(), filepath.Join(dir, ownerFile))
	}
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("pgcluster: %w", err), os.RemoveAll(dir))
	}
	return dir, owner, nil
}

// removeOwned removes a directory, the file that says who owns it last: if something is still being written to it, the next who looks finds it by that.
func removeOwned(dir string) {
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		if entry.Name() != ownerFile {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, entry.Name())))
		}
	}
	if err == nil {
		os.RemoveAll(dir) //nolint:errcheck // see removeOrphans
	}
}

// removeOrphans removes the directories below parent whose owner is dead. It is housekeeping: what cannot be looked at or
// removed, because another user owns it say, stays.
func removeOrphans(parent string) {
	owners, err := filepath.Glob(filepath.Join(parent, dirPrefix+"*", ownerFile))
	if err != nil {
		return
	}
	for _, path := range owners {
		owner, err := os.Open(path)
		if err != nil {
			continue
		}
		if syscall.Flock(int(owner.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			removeOwned(filepath.Dir(path))
		}
		owner.Close() //nolint:errcheck // only read
	}
}
