package pooltest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock/internal/testutil"
)

// StartCluster starts three masters without replicas that share the slots, and
// returns their addresses once every one of them knows it.
func StartCluster(t testing.TB) []string {
	t.Helper()
	servers := testutil.StartRedisN(t, 3, "--cluster-enabled", "yes", "--cluster-node-timeout", "5000")
	const slots = 16384
	addrs := make([]string, len(servers))
	for i, s := range servers {
		addrs[i] = s.Addr()
		words := []any{"CLUSTER", "ADDSLOTS"}
		for slot := i * slots / 3; slot < (i+1)*slots/3; slot++ {
			words = append(words, slot)
		}
		s.MustDo(t, words...)
		s.MustDo(t, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
	}
	for _, s := range servers[1:] {
		host, port, _ := strings.Cut(servers[0].Addr(), ":")
		s.MustDo(t, "CLUSTER", "MEET", host, port)
	}
	testutil.Eventually(t, settle, func() bool {
		for _, s := range servers {
			state, err := redis.String(s.Do("CLUSTER", "INFO"))
			if err != nil || !strings.Contains(state, "cluster_state:ok") || !strings.Contains(state, "cluster_known_nodes:3") {
				return false
			}
			slots, err := redis.Values(s.Do("CLUSTER", "SLOTS"))
			if err != nil || len(slots) != len(servers) {
				return false
			}
		}
		return true
	}, "the cluster has formed")
	return addrs
}

// Sentinel is a master with one replica, watched by one sentinel.
type Sentinel struct {
	Addr, Master string // of the sentinel, and the name it has for the master
	sentinel     *testutil.Server
	first        *testutil.Server // the master at the start
}

// StartSentinel starts one. The test must not be parallel: a wrapper is put into
// $REDIS_SERVER for a moment.
func StartSentinel(t *testing.T) *Sentinel {
	t.Helper()
	master := testutil.StartRedis(t)
	replica := testutil.StartRedis(t)
	host, port, _ := strings.Cut(master.Addr(), ":")
	replica.MustDo(t, "REPLICAOF", host, port)
	testutil.Eventually(t, settle, func() bool {
		text, err := redis.String(replica.Do("INFO", "replication"))
		return err == nil && strings.Contains(text, "master_link_status:up")
	}, "the replica is in step")

	// A sentinel writes to its configuration, which has to be the first argument.
	dir := t.TempDir()
	conf := filepath.Join(dir, "sentinel.conf")
	require.NoError(t, os.WriteFile(conf, fmt.Appendf(nil, "sentinel monitor main %s %s 1\n"+
		"sentinel down-after-milliseconds main 2000\nsentinel failover-timeout main 5000\n", host, port), 0o600))
	bin := os.Getenv("REDIS_SERVER")
	if bin == "" {
		bin = "redis-server"
	}
	bin, err := exec.LookPath(bin)
	require.NoError(t, err)
	wrapper := filepath.Join(dir, "sentinel")
	require.NoError(t, os.WriteFile(wrapper, fmt.Appendf(nil, "#!/bin/sh\nexec '%s' '%s' \"$@\"\n", bin, conf), 0o700)) // it is run
	before, had := os.LookupEnv("REDIS_SERVER")
	t.Setenv("REDIS_SERVER", wrapper)
	s := &Sentinel{Master: "main", first: master, sentinel: testutil.StartRedis(t, "--sentinel")}
	if had {
		t.Setenv("REDIS_SERVER", before)
	} else {
		require.NoError(t, os.Unsetenv("REDIS_SERVER"))
	}
	s.Addr = s.sentinel.Addr()
	testutil.Eventually(t, settle, func() bool {
		reply, err := redis.Values(s.sentinel.Do("SENTINEL", "REPLICAS", s.Master))
		return err == nil && len(reply) == 1
	}, "the sentinel has found the replica")
	return s
}

// FailOver makes the replica the master, once, and returns when the old one has
// become its replica: until then, both take writes.
func (s *Sentinel) FailOver(t testing.TB) {
	t.Helper()
	where := func() string {
		reply, err := redis.Strings(s.sentinel.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", s.Master))
		require.NoError(t, err)
		return strings.Join(reply, ":")
	}
	before := where()
	testutil.Eventually(t, settle, func() bool {
		_, err := s.sentinel.Do("SENTINEL", "FAILOVER", s.Master)
		return err == nil // the replica may not have been judged fit yet
	}, "the fail-over has begun")
	testutil.Eventually(t, settle, func() bool { return where() != before }, "the replica is the master")
	// The sentinel would do the same, up to ten seconds later.
	host, port, _ := strings.Cut(where(), ":")
	s.first.MustDo(t, "REPLICAOF", host, port)
	s.first.MustDo(t, "CLIENT", "KILL", "TYPE", "normal")
	s.first.MustDo(t, "CLIENT", "KILL", "TYPE", "pubsub")
}
