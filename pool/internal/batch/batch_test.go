package batch_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock/pool"
	"github.com/quorumlock/redlock/pool/internal/batch"
)

// line is a node whose first batches, as many as may be under way, hold up the calls
// after them until open is closed.
type line struct {
	*batch.Batches
	t     *testing.T
	open  chan struct{}
	first int
	// sent gets the batches after the first ones, with their contexts.
	sent chan batchOf
	// hold is what these wait for before they end; nil for nothing.
	hold chan struct{}
}

type batchOf struct {
	ctx     context.Context
	members int
}

func newLine(t *testing.T) *line {
	l := &line{t: t, open: make(chan struct{}), sent: make(chan batchOf, 100)}
	l.Batches = batch.New(func(ctx context.Context, members []*batch.Call) bool {
		if l.first < batch.Few { // one at a time before the line is full
			l.first++
			<-l.open
		} else {
			l.sent <- batchOf{ctx, len(members)}
			if l.hold != nil {
				<-l.hold
			}
		}
		for _, m := range members {
			m.End(m.Into(), ctx.Err())
		}
		return true
	})
	for range batch.Few {
		l.call(context.Background())
	}
	return l
}

// call makes a call, which is under way or in the line when call returns.
func (l *line) call(ctx context.Context) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := l.Do(ctx, nil, nil, nil)
		done <- err
	}()
	synctest.Wait()
	return done
}

// Alone in its batch or with others, a call whose time is up is not sent.
func TestNotSentPastItsTime(t *testing.T) {
	for name, others := range map[string]int{"alone": 0, "first of several": 2} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLine(t)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				late := l.call(ctx)
				var good []<-chan error
				for range others {
					good = append(good, l.call(t.Context()))
				}
				<-ctx.Done()
				close(l.open)
				err := <-late
				require.ErrorIs(t, err, pool.ErrNotSent)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				for _, done := range good {
					require.NoError(t, <-done)
				}
				sent := 0
				for len(l.sent) > 0 {
					sent += (<-l.sent).members
				}
				require.Equal(t, others, sent)
			})
		})
	}
}

// A call that comes when its time is up does not stand in line.
func TestEndedBeforeItComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := l.Do(ctx, nil, nil, nil)
		require.ErrorIs(t, err, pool.ErrNotSent)
		require.ErrorIs(t, err, context.Canceled)
		close(l.open)
	})
}

type valueKey struct{}

// A batch ends when the last of its members has no time left, and not when one of them
// is cancelled, were it the one with the most time.
func TestCancelledMemberEndsNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t)
		l.hold = make(chan struct{})
		short, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		long, cancel := context.WithTimeout(context.WithValue(t.Context(), valueKey{}, "long"), 3*time.Second)
		calls := []<-chan error{l.call(short), l.call(long), l.call(short)}
		close(l.open)
		b := <-l.sent
		require.Equal(t, 3, b.members)
		deadline, ok := b.ctx.Deadline()
		require.True(t, ok)
		require.Equal(t, 3*time.Second, time.Until(deadline))
		require.Equal(t, "long", b.ctx.Value(valueKey{}))
		cancel()
		synctest.Wait()
		require.NoError(t, b.ctx.Err())
		close(l.hold)
		for _, done := range calls {
			require.NoError(t, <-done)
		}
	})
}

// Whoever asks for the end of a batch's context hears of it: at the deadline, or when
// the batch is done.
func TestEndOfASharedContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t)
		l.hold = make(chan struct{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		calls := []<-chan error{l.call(ctx), l.call(ctx)}
		close(l.open)
		started, b := time.Now(), <-l.sent
		<-b.ctx.Done()
		require.Equal(t, time.Second, time.Since(started))
		require.ErrorIs(t, b.ctx.Err(), context.DeadlineExceeded)
		close(l.hold)
		for _, done := range calls {
			require.ErrorIs(t, <-done, context.DeadlineExceeded)
		}

		own := newLine(t)
		calls = []<-chan error{own.call(t.Context()), own.call(t.Context())}
		close(own.open)
		b = <-own.sent
		require.Equal(t, 2, b.members)
		for _, done := range calls {
			require.NoError(t, <-done)
		}
		<-b.ctx.Done()
		require.ErrorIs(t, b.ctx.Err(), context.Canceled)
	})
}

// With a member that has no deadline, the batch has none.
func TestMemberWithoutDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		calls := []<-chan error{l.call(ctx), l.call(t.Context())}
		close(l.open)
		b := <-l.sent
		require.Equal(t, 2, b.members)
		_, ok := b.ctx.Deadline()
		require.False(t, ok)
		for _, done := range calls {
			require.NoError(t, <-done)
		}
	})
}

// A near node that has much to do gets one batch at a time; while it has little to do, a
// call does not wait for another's answer.
func TestOneBatchAtATimeUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type sent struct {
			members int
			end     chan struct{}
		}
		batches := make(chan sent, 10)
		b := batch.New(func(_ context.Context, members []*batch.Call) bool {
			s := sent{len(members), make(chan struct{})}
			batches <- s
			<-s.end
			for _, m := range members {
				m.End(nil, nil)
			}
			return true
		})
		call := func(n int) {
			for range n {
				go func() {
					if _, err := b.Do(t.Context(), nil, nil, nil); err != nil {
						t.Error(err)
					}
				}()
			}
			synctest.Wait()
		}
		next := func(members int) sent {
			synctest.Wait()
			require.Len(t, batches, 1)
			s := <-batches
			require.Equal(t, members, s.members)
			return s
		}
		call(1)
		first := next(1)
		call(1)
		second := next(1)
		call(10)
		require.Empty(t, batches)
		close(first.end)
		large := next(10)
		call(5)
		close(second.end)
		synctest.Wait()
		require.Empty(t, batches, "ten calls are under way")
		close(large.end)
		close(next(5).end)
		synctest.Wait()
		call(1)
		close(next(1).end)
	})
}

// Each call has its own result.
func TestResultsAreNotMixedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := errors.New("bad")
		b := batch.New(func(_ context.Context, members []*batch.Call) bool {
			time.Sleep(time.Millisecond)
			for _, m := range members {
				if n := m.Words[0].(int); n%3 == 0 {
					m.End(nil, bad)
				} else {
					m.End(append(m.Into(), int64(n)), nil)
				}
			}
			return true
		})
		for n := range 300 {
			go func() {
				got, err := b.Do(t.Context(), nil, []any{n}, make([]int64, 0, 1))
				if n%3 == 0 {
					if !errors.Is(err, bad) {
						t.Errorf("call %d: %v, %v", n, got, err)
					}
				} else if err != nil || len(got) != 1 || got[0] != int64(n) {
					t.Errorf("call %d: %v, %v", n, got, err)
				}
			}()
		}
		synctest.Wait()
		time.Sleep(time.Minute)
	})
}
