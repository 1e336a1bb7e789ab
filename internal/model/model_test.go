package model

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestProtocolAsWritten(t *testing.T) {
	for _, b := range Small() {
		t.Run(b.Name, func(t *testing.T) { holds(t, b.Config) })
	}
}

func TestProtocolAsWrittenWithinLargeBounds(t *testing.T) {
	if os.Getenv("REDLOCK_MODEL") == "" {
		t.Skip("minutes: set REDLOCK_MODEL=1, or run make model")
	}
	for _, b := range Large() {
		t.Run(b.Name, func(t *testing.T) { holds(t, b.Config) })
	}
}

func holds(t *testing.T, c Config) {
	t.Helper()
	r := Explore(c)
	require.Empty(t, r.Broken, "%s", strings.Join(r.Trace, "\n"))
	assert.Equal(t, c.MaxStates == 0, r.Complete)
	t.Logf("%d states, depth %d", r.States, r.Depth)
}

// An explorer that finds nothing wrong proves something only if it would.
func TestEachBadVariantIsFound(t *testing.T) {
	for _, h := range Hunts() {
		t.Run(h.Name, func(t *testing.T) {
			r := Explore(h.Config)
			require.NotEmpty(t, r.Broken)
			require.Len(t, r.Trace, r.Depth)
			t.Logf("%s\n%s", r.Broken, strings.Join(r.Trace, "\n"))

			sound := h.Config
			sound.Variant, sound.Hold, sound.MaxStates = AsWritten, 0, min(r.States, 5_000)
			if h.Variant == NoGuard {
				sound.Guard = true
			}
			require.Empty(t, Explore(sound).Broken, "it is not the change that breaks it")
		})
	}
}

func TestTheSameExplorationTwice(t *testing.T) {
	c := Hunts()[0].Config
	assert.Equal(t, Explore(c), Explore(c))
}

// States that differ by a symmetry have one fingerprint, and count once.
func TestFingerprintIgnoresNames(t *testing.T) {
	m := newModel(Config{Clients: 2, Expiry: 2, Skew: 1, Ahead: 1})
	step := func(client, node int8) uint64 {
		s := m.initial()
		for _, a := range []action{{kind: actPropose, client: client}, {kind: actAcquireRuns, client: client, node: node}} {
			s = take(t, m, s, a)
		}
		return m.fingerprint(&s)
	}
	assert.Equal(t, step(0, 0), step(1, 0), "clients are alike")
	assert.Equal(t, step(0, 0), step(0, 1), "nodes with one clock are alike")
	assert.NotEqual(t, step(0, 0), step(0, 2), "a node with another clock is not")
}

// take makes the first step that is like a.
func take(t *testing.T, m *model, s state, a action) state {
	t.Helper()
	for _, st := range m.successors(&s) {
		if st.kind == a.kind && st.client == a.client && st.node == a.node {
			return st.next
		}
	}
	require.FailNow(t, fmt.Sprintf("no step %+v", a))
	return s
}
