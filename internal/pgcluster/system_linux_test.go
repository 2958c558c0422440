package pgcluster

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// victimVariable makes this test binary a process that starts a cluster and waits to be killed.
const victimVariable = "CAIRN_PGCLUSTER_VICTIM"

// requireGone waits until the process is gone, or is a zombie that init has not yet collected, and the port is closed.
func requireGone(t *testing.T, pid int, address string) {
	t.Helper()
	require.Eventually(t, func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(stat), ") Z ")
	}, patience, pollInterval, "server process %d lives", pid)
	require.Eventually(t, func() bool {
		conn, err := net.DialTimeout("tcp", hostPort(t, address), time.Second)
		if err != nil {
			return true
		}
		require.NoError(t, conn.Close())
		return false
	}, patience, pollInterval, "port is open")
}

func TestServerDiesWithItsParent(t *testing.T) {
	t.Parallel()
	newCluster(t, Options{}) // skips where there is no server
	victim := exec.Command(os.Args[0], "-test.run=^TestVictim$")
	victim.Env = append(os.Environ(), victimVariable+"=1")
	output, err := victim.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, victim.Start())
	line, err := bufio.NewReader(output).ReadString('\n')
	require.NoError(t, err)
	words := strings.Fields(line)
	require.Len(t, words, 3, line)
	pid, err := strconv.Atoi(words[0])
	require.NoError(t, err)
	require.DirExists(t, words[2])

	require.NoError(t, victim.Process.Kill())
	require.Error(t, victim.Wait())
	requireGone(t, pid, words[1])
	require.Eventually(t, func() bool { // others may be removing it, and the server's processes may write until they notice that they are alone
		removeOrphans(filepath.Dir(words[2]))
		_, err := os.Stat(words[2])
		return errors.Is(err, os.ErrNotExist)
	}, patience, pollInterval, "the directory is there")
}

// TestVictim is not a test: TestServerDiesWithItsParent runs it in a process of its own, and kills that.
func TestVictim(t *testing.T) {
	t.Parallel()
	if os.Getenv(victimVariable) == "" {
		t.Skip("not a test")
	}
	cluster, err := New(t.Context(), Options{})
	require.NoError(t, err)
	fmt.Println(cluster.PID(), cluster.URL(), cluster.Dir())
	select {}
}

func TestRemoveOrphansSparesTheLiving(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	living, owner, err := makeOwnedDir(parent)
	require.NoError(t, err)
	defer func() { require.NoError(t, owner.Close()) }()
	dead, orphan, err := makeOwnedDir(parent)
	require.NoError(t, err)
	require.NoError(t, orphan.Close())
	young, err := os.MkdirTemp(parent, dirPrefix)
	require.NoError(t, err)

	removeOrphans(parent)
	require.DirExists(t, living)
	require.DirExists(t, young, "its owner has not locked it yet")
	require.NoDirExists(t, dead)
}

func TestRootGivesTheServerAway(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t, Options{})
	info, err := os.Stat(filepath.Join("/proc", strconv.Itoa(cluster.PID())))
	require.NoError(t, err)
	status, ok := info.Sys().(*syscall.Stat_t)
	require.True(t, ok)
	require.NotZero(t, status.Uid, "the server runs as root")
}
