package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock"
)

// The embedded nodes have no INFO server, which the restart guard needs: it must
// refuse them at once rather than trust them.
func TestDevNodesRefuseTheGuard(t *testing.T) {
	node, err := startDevNode(0, 0)
	require.NoError(t, err)
	defer node.Close()
	s, err := openService([]endpoint{{network: "tcp", address: node.Addr(), dial: time.Second, read: time.Second, writes: time.Second}})
	require.NoError(t, err)
	defer s.close()
	started := time.Now()
	err = s.NewMutex("job", redlock.WithRestartGuard(30*time.Second)).LockContext(t.Context())
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	t.Log(err)
	assert.Less(t, time.Since(started), 20*time.Second)
	require.NoError(t, s.NewMutex("job").LockContext(t.Context()))
}
