package lazyctx_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock/internal/lazyctx"
)

type key struct{}

// The ends of a context, each seen by Err alone, by a Done that was asked for before, and
// by one that is asked for after.
func TestEnds(t *testing.T) {
	for name, c := range map[string]struct {
		deadline bool
		end      func(c *lazyctx.Context, early context.CancelFunc)
		want     error
	}{
		"deadline":       {true, func(*lazyctx.Context, context.CancelFunc) { <-time.After(time.Second) }, context.DeadlineExceeded},
		"End":            {true, func(c *lazyctx.Context, _ context.CancelFunc) { c.End(context.Canceled) }, context.Canceled},
		"End, unlimited": {false, func(c *lazyctx.Context, _ context.CancelFunc) { c.End(context.Canceled) }, context.Canceled},
		"twice": {true, func(c *lazyctx.Context, _ context.CancelFunc) {
			c.End(context.Canceled)
			c.End(context.DeadlineExceeded)
		}, context.Canceled},
		"early": {true, func(c *lazyctx.Context, early context.CancelFunc) {
			c.Done() // who does not wait does not hear of it
			early()
			synctest.Wait()
		}, context.Canceled},
	} {
		for _, asked := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				values, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "v"))
				early, stop := context.WithCancel(t.Context())
				defer stop()
				var deadline time.Time
				if c.deadline {
					deadline = time.Now().Add(time.Second)
				}
				var ctx lazyctx.Context
				ctx.Begin(values, early, deadline)
				cancel()
				require.NoError(t, ctx.Err(), "%s: the end of the other is not its own", name)
				require.Equal(t, "v", ctx.Value(key{}))
				at, limited := ctx.Deadline()
				require.Equal(t, c.deadline, limited)
				require.Equal(t, deadline, at)
				if asked {
					select {
					case <-ctx.Done():
						require.Fail(t, "it has not ended", name)
					default:
					}
				}
				c.end(&ctx, stop)
				if asked {
					<-ctx.Done()
				}
				require.Equal(t, c.want, ctx.Err(), name)
				<-ctx.Done()
				ctx.End(context.Canceled)
			})
		}
	}
}

// Without a context that ends it early there is only the deadline, and End.
func TestNothingEndsItEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ctx lazyctx.Context
		ctx.Begin(t.Context(), nil, time.Time{})
		select {
		case <-ctx.Done():
			require.Fail(t, "it has not ended")
		case <-time.After(time.Hour):
		}
		child, cancel := context.WithTimeout(&ctx, time.Hour)
		defer cancel()
		ctx.End(context.Canceled)
		<-child.Done()
		require.ErrorIs(t, child.Err(), context.Canceled)
	})
}
