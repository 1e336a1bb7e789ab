//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock/internal/chaos/history"
	"github.com/quorumlock/redlock/internal/testutil"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(clientEnv); text != "" {
		os.Exit(runClient(text, os.Stdin))
	}
	if err := fastDisk(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(testutil.Main(m))
}

// short is a run of a few seconds.
func short(t *testing.T) settings {
	return settings{
		length: 3 * time.Second, seed: 1, clients: 3, nodes: 5, workers: 2, names: []string{"a", "b"},
		expiry: time.Second, guard: shortestGuard, pace: 300 * time.Millisecond, dir: t.TempDir(),
	}
}

// Few faults, real servers and processes, every check.
func TestShortRunKeepsEveryPromise(t *testing.T) {
	r := &request{settings: short(t)}
	res, err := run(r.settings, os.Stderr)
	require.NoError(t, err)
	var out bytes.Buffer
	require.Equal(t, exitFine, r.tell(res, &out, os.Stderr), "%s", &out)
	t.Logf("\n%s", &out)
	require.NotZero(t, res.Grants)
	require.NotEmpty(t, res.Counts["fault"])
	require.NoFileExists(t, res.history, "there is nothing to look at")
}

// The same with the rules broken: if this found nothing, the run above would mean nothing.
func TestMajorityThatForgetsIsFound(t *testing.T) {
	r := &request{settings: short(t)}
	r.guard, r.restartMajority, r.settings.names, r.expiry = 0, true, []string{"a"}, 2*time.Second
	r.settings.nodes, r.length = 3, 20*time.Second // it ends as soon as it has shown
	res, err := run(r.settings, os.Stderr)
	require.NoError(t, err)
	var out bytes.Buffer
	require.Equal(t, exitViolated, r.tell(res, &out, os.Stderr), "%s", &out)
	require.Equal(t, []string{"a"}, res.Exclusion.Illegal, "%s", &out)
	require.NotEmpty(t, res.Overlaps)
	require.Contains(t, out.String(), "VIOLATED")
	r.expectViolation = true
	require.Equal(t, exitFine, r.tell(res, &out, os.Stderr))

	events, err := history.Read(res.history)
	require.NoError(t, err)
	require.Equal(t, res.Overlaps, history.Check(events).Overlaps, "the history that is kept shows it again")
}

func TestVerdictBecomesExitCode(t *testing.T) {
	path := func() string {
		path := t.TempDir() + "/history"
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		return path
	}
	undecided := &history.Report{Fence: history.Verdict{Undecided: []string{"a"}}}
	for _, c := range []struct {
		res  *result
		want bool // a violation
		code int
	}{
		{&result{Report: &history.Report{}}, false, exitFine},
		{&result{Report: &history.Report{}}, true, exitViolated},
		{&result{Report: &history.Report{Overlaps: []string{"x"}}}, false, exitViolated},
		{&result{Report: &history.Report{Overlaps: []string{"x"}}}, true, exitFine},
		{&result{Report: &history.Report{}, wrong: []string{"a key is left"}}, false, exitViolated},
		{&result{Report: &history.Report{}, failure: errors.New("no server")}, false, exitFailed},
		{&result{Report: &history.Report{}, failure: errors.New("no server")}, true, exitFailed},
		{&result{Report: undecided}, false, exitFailed},
		{&result{Report: undecided}, true, exitFailed},
	} {
		var out bytes.Buffer
		c.res.history = path()
		require.Equal(t, c.code, (&request{expectViolation: c.want}).tell(c.res, &out, &out), "%s", &out)
	}
}

func TestCommandLine(t *testing.T) {
	var errs bytes.Buffer
	r, err := parse([]string{"-for", "10m", "-guard", "off", "-namespace=off", "-names", "2", "-clients", "3"}, &errs)
	require.NoError(t, err)
	require.Equal(t, 10*time.Minute, r.length)
	require.Zero(t, r.guard)
	require.False(t, r.namespace)
	require.Equal(t, []string{"lock-0", "lock-1"}, r.settings.names)
	require.NotZero(t, r.seed, "drawn")
	r, err = parse(nil, &errs)
	require.NoError(t, err)
	require.Equal(t, shortestGuard, r.guard)
	require.True(t, r.namespace)
	for _, bad := range []string{"-guard=maybe", "-clients=0", "-for=-1s", "-unknown"} {
		require.Equal(t, exitFailed, command([]string{bad}, &errs, &errs), bad)
	}
	require.Equal(t, exitFine, command([]string{"-h"}, &errs, &errs))
}

func TestBudgetIsAMinorityForEveryClient(t *testing.T) {
	b := newBudget(2, 5)
	require.True(t, b.claimNode(0))
	require.False(t, b.claimNode(0), "one fault at a time")
	require.False(t, b.claimLink(0, 0))
	require.True(t, b.claimLink(0, 1))
	require.False(t, b.claimLink(0, 2), "a third of five")
	require.False(t, b.claimNode(2), "for the first client")
	require.True(t, b.claimNode(1), "which it does not see anyway")
	require.False(t, b.claimLink(1, 2))
	b.releaseNode(0)
	require.True(t, b.claimLink(1, 2))
	b.releaseLink(1, 2)
	b.releaseNode(1)
	require.True(t, b.claimNode(4))
	b.releaseLink(0, 1)
	_, ok := b.claimLinks([]int{0, 1}, []int{1, 3})
	require.False(t, ok, "a third of five")
	require.True(t, b.claimLink(0, 1), "none of them is left")
	b.releaseLink(0, 1)
	release, ok := b.claimLinks([]int{0, 1}, []int{3})
	require.True(t, ok)
	require.False(t, b.claimLink(1, 1))
	release()
	require.True(t, b.claimLink(1, 1))
	require.False(t, newBudget(1, 2).claimNode(0), "two nodes need both")
}

// Rules of a packet filter follow the cuts, which may overlap.
func TestFilterRules(t *testing.T) {
	l := &link{source: "127.0.3.1", addr: "127.0.2.1:7000"}
	require.Empty(t, l.rules())
	for _, kind := range []cut{cutReplies, cutReplies, cutReset} {
		require.NoError(t, l.count(kind, 1, false))
	}
	back, reset := "ip saddr 127.0.2.1 ip daddr 127.0.3.1 tcp sport 7000 drop",
		"ip saddr 127.0.3.1 ip daddr 127.0.2.1 tcp dport 7000 reject with tcp reset"
	require.Equal(t, []string{back, reset}, l.rules())
	require.NoError(t, l.count(cutReplies, -1, false))
	require.Equal(t, []string{back, reset}, l.rules())
	require.NoError(t, l.count(cutReplies, -1, false))
	require.Equal(t, []string{reset}, l.rules())
	require.NoError(t, l.count(cutLoss, 1, false))
	require.Len(t, l.rules(), 3)
	require.Contains(t, strings.Join(l.rules(), "\n"), "numgen random")
}

// What is left at a node is told apart from what runs out by itself.
func TestRemains(t *testing.T) {
	d := &node{server: testutil.StartRedis(t)}
	names := []string{"a"}
	require.NoError(t, d.introduce(names, time.Minute))
	for _, kind := range []string{"f", "b"} {
		d.server.MustDo(t, "SET", "a:"+kind+"{a}", "1", "PX", 60000)
	}
	require.Empty(t, d.remains(names, 0, 0, true))
	d.server.MustDo(t, "ZADD", "a:q{a}", 1, "x")
	require.Len(t, d.remains(names, 0, 0, false), 1, "a queue that never runs out")
	d.server.MustDo(t, "PEXPIRE", "a:q{a}", 60000)
	require.Empty(t, d.remains(names, 0, 0, false))
	_, queues := d.look(names)
	require.Len(t, queues, 1)
	d.server.MustDo(t, "SET", "a", "1", "PX", 60000)
	require.Len(t, d.remains(names, 0, 0, false), 1, "a lock")
	d.server.MustDo(t, "SET", "a", "1", "PX", 200)
	require.Empty(t, d.remains(names, 10*time.Second, 0, false), "in time")
	d.server.MustDo(t, "SET", "a:f{a}", "1")
	require.Len(t, d.remains(names, 0, 0, false), 1, "a fence that never runs out")
	d.server.MustDo(t, "SET", "other", "1", "PX", 60000)
	require.Len(t, d.remains(names, 0, 0, false), 2)
	d.server.MustDo(t, "DEL", "a:f{a}", "other")
	c, err := d.server.Conn()
	require.NoError(t, err)
	defer c.Close() //nolint:errcheck // a connection of the test
	require.NoError(t, c.Send("SUBSCRIBE", "redlock:wake:x"))
	require.NoError(t, c.Flush())
	_, err = c.Receive()
	require.NoError(t, err)
	require.Len(t, d.remains(names, 0, 0, false), 1, "a subscription")
}

// What testutil wants of a test ends as an error here, and what it made is taken away.
func TestStage(t *testing.T) {
	s := &stage{}
	var dir string
	require.NoError(t, s.run(func() { dir = s.TempDir() }))
	require.DirExists(t, dir)
	require.ErrorContains(t, s.run(func() { s.Fatal(errors.New("no server")) }), "no server")
	require.PanicsWithValue(t, "other", func() { _ = s.run(func() { panic("other") }) })
	require.ErrorContains(t, s.close(), "no server")
	require.NoDirExists(t, dir)
}
