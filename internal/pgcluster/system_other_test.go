//go:build !linux

package pgcluster

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// requireGone checks that nobody listens on the port; process ids are looked at on Linux only.
func requireGone(t *testing.T, _ int, address string) {
	t.Helper()
	conn, err := net.Dial("tcp", hostPort(t, address))
	if err == nil {
		require.NoError(t, conn.Close())
	}
	require.Error(t, err)
}
