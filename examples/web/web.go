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
// again, and has changed nothing. closeAccount must have its store refuse a token that is
// below one it has seen: then what it returns holds, even if the lock was lost meanwhile.
func Handler(locks *redlock.Redlock, closeAccount func(ctx context.Context, id string, token int64) error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /accounts/{id}/close", func(w http.ResponseWriter, r *http.Request) {
		// It also ends when the client hangs up: then nobody waits for the lock.
		ctx, cancel := context.WithTimeout(r.Context(), Patience)
		defer cancel()
		id, begun, closed := r.PathValue("id"), false, false
		err := locks.Do(ctx, "account:"+id, func(ctx context.Context) error {
			begun = true
			token, _ := redlock.TokenFromContext(ctx)
			err := closeAccount(ctx, id, token)
			closed = err == nil
			return err
		})
		switch {
		case closed:
			// Whatever became of the lock: the store has taken the token.
			w.WriteHeader(http.StatusNoContent)
		case begun:
			// Not by err, which may be of a lock that the work wanted.
			http.Error(w, "the account may or may not be closed", http.StatusInternalServerError)
		default:
			comeAgain(w, err)
		}
	})
	return mux
}

// comeAgain answers a request that did not get the lock.
func comeAgain(w http.ResponseWriter, err error) {
	var taken *redlock.TakenError
	if errors.As(err, &taken) {
		w.Header().Set("Retry-After", strconv.Itoa(seconds(taken.TTL)))
		http.Error(w, "somebody else is at work on this account", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Retry-After", "1")
	http.Error(w, "the lock service does not answer", http.StatusServiceUnavailable)
}

// seconds is when the lock may be free: at its expiry, if its holder does not renew
// it; much more often it is released before. At least 1, at most 5.
func seconds(ttl time.Duration) int {
	return min(max(int(math.Ceil(ttl.Seconds())), 1), 5)
}
