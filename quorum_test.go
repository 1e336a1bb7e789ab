package redlock

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock/pool"
)

// twinVerdict says the same as tally in the dumbest way: it tries every way in
// which the missing votes could turn out.
func twinVerdict(n, quorum int, votes []vote) verdict {
	yesNow := 0
	for _, v := range votes {
		if v == yes {
			yesNow++
		}
	}
	canWin, canLose := false, false
	for more := range n - len(votes) + 1 {
		if yesNow+more >= quorum {
			canWin = true
		} else {
			canLose = true
		}
	}
	switch {
	case canWin && canLose:
		return pending
	case canWin:
		return won
	}
	return lost
}

// Every order of every set of votes, for every size and every quorum: the verdict
// comes at the first vote that settles it, and no later vote changes it.
func TestTallyAllOrders(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 7; n++ {
		for quorum := 1; quorum <= n; quorum++ {
			for bits := range 1 << n {
				tl := tally{n: n, quorum: quorum}
				require.Equal(t, twinVerdict(n, quorum, nil), tl.verdict())
				votes := make([]vote, 0, n)
				settled := pending
				for i := range n {
					v := vote(bits >> i & 1)
					votes = append(votes, v)
					tl.add(v)
					got := tl.verdict()
					require.Equal(t, twinVerdict(n, quorum, votes), got, "n %d, quorum %d, votes %v", n, quorum, votes)
					if settled != pending {
						require.Equal(t, settled, got, "n %d, quorum %d, votes %v: a settled verdict changed", n, quorum, votes)
					}
					settled = got
				}
				require.NotEqual(t, pending, settled, "all have voted")
			}
		}
	}
}

func TestQuorumIsAMajority(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]int{1: 1, 2: 2, 3: 2, 4: 3, 5: 3, 6: 4, 7: 4} {
		r, err := New(scripted(n, nil))
		require.NoError(t, err)
		require.Equal(t, want, r.quorum, "of %d", n)
		require.Greater(t, 2*r.quorum, n, "two quorums share a node")
	}
}

// scripted are pools whose answers a test decides.
func scripted(n int, eval func(ctx context.Context, i int) ([]int64, error)) []pool.Pool {
	out := make([]pool.Pool, n)
	for i := range out {
		out[i] = scriptedPool{i, eval}
	}
	return out
}

type scriptedPool struct {
	i    int
	eval func(ctx context.Context, i int) ([]int64, error)
}

func (p scriptedPool) Eval(ctx context.Context, _ *pool.Script, _ []string, _ ...any) ([]int64, error) {
	return p.eval(ctx, p.i)
}

// A round ends at the decisive reply, in virtual time to the nanosecond, for every
// order in which five nodes can agree, refuse or hang.
func TestRoundEndsAtTheDecision(t *testing.T) {
	t.Parallel()
	const timeout = time.Second
	kinds := []struct {
		v    vote
		hung bool
	}{{yes, false}, {no, false}, {no, true}}
	synctest.Test(t, func(t *testing.T) {
		for pattern := range 3 * 3 * 3 * 3 * 3 {
			at := func(i int) int { // kind of node i
				p := pattern
				for range i {
					p /= 3
				}
				return p % 3
			}
			var early, late sync.Map
			r, err := New(scripted(5, nil))
			require.NoError(t, err)
			started := time.Now()
			rd := r.actOnPoolsAsync(t.Context(), timeout, request{
				asked: func(ctx context.Context, n *node) reply {
					a := reply{sent: time.Now()}
					if kinds[at(n.index)].hung {
						<-ctx.Done()
						a.err = n.fault(ctx.Err())
					} else {
						time.Sleep(time.Duration(n.index+1) * time.Millisecond)
					}
					a.received = time.Now()
					return a
				},
				counted: func(n *node, a reply) vote {
					if _, twice := early.LoadOrStore(n.index, true); twice {
						late.Store(n.index, true)
					}
					return kinds[at(n.index)].v
				},
			})
			got, _ := rd.wait(t.Context())
			took := time.Since(started)

			// The twin: votes in the order of their arrival.
			votes, want, wantTook := []vote{}, pending, timeout
			for i := range 5 {
				if kinds[at(i)].hung {
					continue
				}
				votes = append(votes, kinds[at(i)].v)
				if want = twinVerdict(5, 3, votes); want != pending {
					wantTook = time.Duration(i+1) * time.Millisecond
					break
				}
			}
			if want == pending {
				want = lost
			}
			require.Equal(t, want, got, "pattern %d", pattern)
			require.Equal(t, wantTook, took, "pattern %d", pattern)
			<-r.tasks.idle()
			counted := 0
			early.Range(func(any, any) bool { counted++; return true })
			require.Equal(t, 5, counted, "late replies are counted, too")
			late.Range(func(any, any) bool { t.Error("a reply was counted twice"); return true })
		}
	})
}

// The requests of a round outlive the caller's context: what was sent has to be
// known or undone. The caller does not wait for that.
func TestRoundOutlivesItsCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, err := New(scripted(3, nil))
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		started := time.Now()
		var counted sync.Map
		rd := r.actOnPoolsAsync(ctx, time.Second, request{
			asked: func(ctx context.Context, n *node) reply {
				sent := time.Now()
				select {
				case <-ctx.Done():
					return reply{err: n.fault(ctx.Err()), sent: sent, received: time.Now()}
				case <-time.After(300 * time.Millisecond):
					return reply{sent: sent, received: time.Now()}
				}
			},
			counted: func(n *node, a reply) vote {
				counted.Store(n.index, a.err)
				return yes
			},
		})
		got, replies := rd.wait(ctx)
		require.Equal(t, 10*time.Millisecond, time.Since(started))
		require.Equal(t, lost, got)
		for i, a := range replies {
			var fault *NodeError
			require.ErrorAs(t, a.err, &fault)
			require.Equal(t, i, fault.Node)
			require.ErrorIs(t, a.err, context.DeadlineExceeded)
		}
		<-r.tasks.idle()
		require.Equal(t, 300*time.Millisecond, time.Since(started), "the requests were not cut short")
		for i := range 3 {
			err, ok := counted.Load(i)
			require.True(t, ok && err == nil, "node %d: %v", i, err)
		}
	})
}

// An adapter that ignores its context must not hold a verb up.
func TestRoundEndsWhateverAnAdapterDoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		r, err := New(scripted(3, func(context.Context, int) ([]int64, error) {
			<-release
			return nil, errors.New("at last")
		}), WithNodeTimeout(700*time.Millisecond))
		require.NoError(t, err)
		started := time.Now()
		err = r.NewMutex("jobs").TryLock()
		require.ErrorIs(t, err, ErrNoQuorum)
		require.Equal(t, 700*time.Millisecond, time.Since(started))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, r.Close(ctx), context.DeadlineExceeded)
		close(release)
		<-r.tasks.idle()
	})
}
