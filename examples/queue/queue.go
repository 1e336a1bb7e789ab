// Package queue works on jobs that a queue may deliver twice: one worker for each
// job at a time, and a result that a worker of the past cannot overwrite.
package queue

import (
	"context"
	"errors"
	"sync"

	"github.com/quorumlock/redlock"
)

var (
	// ErrElsewhere says that another worker is at the job: leave it in the queue.
	ErrElsewhere = errors.New("another worker has the job")
	// ErrStale says that a later worker has written the result already.
	ErrStale = errors.New("a later worker has written the result")
)

// Handle works on one job under its lock, unless its result is there already, and
// writes the result with the fencing token of the grant.
func Handle(ctx context.Context, locks *redlock.Redlock, store *Store, id string, work func(ctx context.Context, id string) (string, error)) error {
	mine := false
	err := locks.Do(ctx, "job:"+id, func(ctx context.Context) error {
		mine = true
		if store.Done(id) {
			return nil // it was delivered twice
		}
		result, err := work(ctx, id)
		if err != nil {
			return err
		}
		// The lock may have been lost since, if this process was suspended: no check
		// here could tell in time. The store can.
		token, _ := redlock.TokenFromContext(ctx)
		return store.Save(id, token, result)
	}, redlock.WithTries(1)) // the queue delivers it again: no need to wait
	// Work may take locks too, and fail to.
	if !mine && errors.Is(err, redlock.ErrTaken) {
		return ErrElsewhere
	}
	return err
}

// Store keeps results. In a database Save is one statement:
//
//	INSERT INTO results (id, token, result) VALUES ($1, $2, $3)
//	ON CONFLICT (id) DO UPDATE SET token = $2, result = $3 WHERE results.token < $2
//
// which changes no row where the token is not the highest.
type Store struct {
	mu   sync.Mutex
	rows map[string]row // guarded by mu
}

type row struct {
	token  int64
	result string
}

// NewStore makes an empty one.
func NewStore() *Store { return &Store{rows: map[string]row{}} }

// Save writes a result, unless one with a higher token is there.
func (s *Store) Save(id string, token int64, result string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rows[id].token >= token {
		return ErrStale
	}
	s.rows[id] = row{token, result}
	return nil
}

// Done reports whether there is a result, be it an empty one.
func (s *Store) Done(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, found := s.rows[id]
	return found
}

// Result is "" if there is none.
func (s *Store) Result(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rows[id].result
}
