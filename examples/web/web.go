// Package web serves requests that need a lock, within a deadline.
package web

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/quorumlock/redlock"
)

// Patience is how long a request may take, its waiting for the lock included.
const Patience = 2 * time.Second

// Handler serves POST /accounts/{id}/close: one request for an account at a time. A
// request that does not get its turn in time is answered with 503 and when to come
// again, and has changed nothing.
func Handler(locks *redlock.Redlock, closeAccount func(ctx context.Context, id string, token int64) error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /accounts/{id}/close", func(w http.ResponseWriter, r *http.Request) {
		// It also ends when the client hangs up: then nobody waits for the lock.
		ctx, cancel := context.WithTimeout(r.Context(), Patience)
		defer cancel()
		id := r.PathValue("id")
		err := locks.Do(ctx, "account:"+id, func(ctx context.Context) error {
			token, _ := redlock.TokenFromContext(ctx)
			return closeAccount(ctx, id, token)
		})
		answer(w, err)
	})
	return mux
}

func answer(w http.ResponseWriter, err error) {
	var taken *redlock.TakenError
	switch {
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
	case errors.Is(err, redlock.ErrFailed) && errors.As(err, &taken):
		w.Header().Set("Retry-After", strconv.Itoa(seconds(taken.TTL)))
		http.Error(w, "somebody else is at work on this account", http.StatusServiceUnavailable)
	case errors.Is(err, redlock.ErrFailed):
		w.Header().Set("Retry-After", "1")
		http.Error(w, "the lock service does not answer", http.StatusServiceUnavailable)
	default:
		// The work itself, or the lock was lost under it.
		http.Error(w, "the account may or may not be closed", http.StatusInternalServerError)
	}
}

// seconds is when the lock may be free: at its expiry, if its holder does not renew
// it; much more often it is released before. At least 1, at most 5.
func seconds(ttl time.Duration) int {
	return min(max(int(math.Ceil(ttl.Seconds())), 1), 5)
}
