package web_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/examples/web"
	"github.com/quorumlock/redlock/redlocktest"
)

func post(h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, nil))
	return w
}

func service(t *testing.T) (redlocktest.Nodes, *redlock.Redlock) {
	t.Helper()
	nodes := redlocktest.NewNodes(3)
	locks, err := redlock.New(nodes.Pools())
	require.NoError(t, err)
	return nodes, locks
}

func TestOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, locks := service(t)
		work, closed := 500*time.Millisecond, map[string]int64{}
		h := web.Handler(locks, func(_ context.Context, id string, token int64) error {
			time.Sleep(work)
			require.Greater(t, token, closed[id], "one after the other, in the order of tokens")
			closed[id] = token
			return nil
		})
		first := make(chan int)
		for range 2 {
			go func() { first <- post(h, "/accounts/7/close").Code }()
		}
		require.Equal(t, http.StatusNoContent, <-first)
		require.Equal(t, http.StatusNoContent, <-first, "the second has waited for its turn")

		work = 6 * time.Second
		go func() { first <- post(h, "/accounts/7/close").Code }()
		synctest.Wait()
		started := time.Now()
		busy := post(h, "/accounts/7/close")
		require.Equal(t, http.StatusServiceUnavailable, busy.Code)
		require.Equal(t, "5", busy.Header().Get("Retry-After"))
		require.Equal(t, web.Patience, time.Since(started))
		require.Equal(t, http.StatusNoContent, <-first)
		require.NoError(t, locks.Close(t.Context()))
	})
}

func TestNoQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, locks := service(t)
		h := web.Handler(locks, func(context.Context, string, int64) error {
			t.Error("without the lock")
			return nil
		})
		nodes[0].Down()
		nodes[1].Down()
		w := post(h, "/accounts/7/close")
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.Equal(t, "1", w.Header().Get("Retry-After"))
		require.Contains(t, w.Body.String(), "does not answer")
		nodes[0].Up()
		nodes[1].Up()
		require.NoError(t, locks.Close(t.Context()))
	})
}

func TestFailedWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, locks := service(t)
		h := web.Handler(locks, func(context.Context, string, int64) error { return errors.New("no database") })
		w := post(h, "/accounts/7/close")
		require.Equal(t, http.StatusInternalServerError, w.Code)
		require.Empty(t, w.Header().Get("Retry-After"))
		require.NoError(t, locks.Close(t.Context()))
	})
}

// A lock that the work wanted and did not get: the work has begun, so that nobody may
// be told that nothing has changed.
func TestWorkThatFindsALockTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, locks := service(t)
		bank := locks.NewMutex("bank")
		require.NoError(t, bank.Lock())
		h := web.Handler(locks, func(ctx context.Context, _ string, _ int64) error {
			return locks.NewMutex("bank").TryLockContext(ctx)
		})
		w := post(h, "/accounts/7/close")
		require.Equal(t, http.StatusInternalServerError, w.Code)
		require.Empty(t, w.Header().Get("Retry-After"))
		_, err := bank.Unlock()
		require.NoError(t, err)
		require.NoError(t, locks.Close(t.Context()))
	})
}

// The account is closed, but the lock cannot be released: the client is told the former.
func TestDoneWithoutARelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, locks := service(t)
		h := web.Handler(locks, func(context.Context, string, int64) error {
			nodes[0].Down()
			nodes[1].Down()
			return nil
		})
		require.Equal(t, http.StatusNoContent, post(h, "/accounts/7/close").Code)
		nodes[0].Up()
		nodes[1].Up()
		require.NoError(t, locks.Close(t.Context()))
	})
}

// As net/http does, the caller recovers: the account is free for the next request.
func TestWorkThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, locks := service(t)
		worked := false
		h := web.Handler(locks, func(context.Context, string, int64) error {
			if !worked {
				worked = true
				panic("no database")
			}
			return nil
		})
		require.Panics(t, func() { post(h, "/accounts/7/close") })
		require.Equal(t, http.StatusNoContent, post(h, "/accounts/7/close").Code)
		require.NoError(t, locks.Close(t.Context()))
	})
}
