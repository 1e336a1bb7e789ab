//go:build unix

package main

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/chaos/history"
)

// worker is one goroutine of a client: it takes locks in every way, one at a time.
type worker struct {
	*client
	rng   *rand.Rand
	store writer
	over  <-chan struct{} // the client is to end
}

// How many things a worker does with a lock, at most; it rests up to an eighth of the
// expiry after each. Held locks are renewed now and then.
const lockSteps, holdSteps = 6, 16

// extendFactor is the longest life of a grant, in expiries.
const extendFactor = 2

func (w *worker) run(ctx context.Context) {
	defer w.store.close()
	for w.rest(ctx, w.upTo(w.Expiry/5)) {
		m := w.r.NewMutex(w.Names[w.rng.IntN(len(w.Names))])
		switch n := w.rng.IntN(100); {
		case n < 35:
			patience, cancel := context.WithTimeout(ctx, w.upTo(3*w.Expiry))
			w.lock(patience, m, "lock", m.LockContext)
			cancel()
		case n < 50:
			w.lock(ctx, m, "try", m.TryLockContext)
		case n < 60: // gives up soon, often while requests are on their way
			patience, cancel := context.WithTimeout(ctx, w.upTo(20*time.Millisecond))
			w.lock(patience, m, "lock", m.LockContext)
			cancel()
		case n < 85:
			w.hold(ctx, m)
		default:
			w.do(ctx, m)
		}
	}
}

func (w *worker) upTo(d time.Duration) time.Duration {
	return time.Duration(1 + w.rng.Int64N(int64(d)))
}

// rest reports false when ctx has ended, or the client is to end.
func (w *worker) rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
	case <-w.over:
	}
	return false
}

// acquire logs an acquiring call.
func (w *worker) acquire(m *redlock.Mutex, verb string, f func() error) (ok bool) {
	w.call(history.Event{Verb: verb, Name: m.Name()}, func(e *history.Event) {
		err := f()
		if settle(e, err); err == nil {
			e.Token, e.Until, ok = m.Token(), w.clock.at(m.Until()), true
		}
	})
	return ok
}

// lock is a turn without renewal.
func (w *worker) lock(ctx context.Context, m *redlock.Mutex, verb string, f func(context.Context) error) {
	if !w.acquire(m, verb, func() error { return f(ctx) }) {
		return
	}
	token := m.Token()
	for left := w.rng.IntN(lockSteps); left > 0 && m.Valid(); left-- {
		switch w.rng.IntN(4) {
		case 0:
			w.extend(m)
		case 1:
			w.write(m.Name(), token, m.Until())
		}
		w.rest(context.Background(), w.upTo(w.Expiry/8))
	}
	w.stale(m.Name(), token, m.Until())
	switch w.rng.IntN(24) {
	case 0: // walks away: the lock is left to its expiry
	case 1:
		dead, cancel := context.WithCancel(context.Background())
		cancel()
		w.unlock(dead, m, token)
	default:
		w.unlock(context.Background(), m, token)
	}
}

// stale writes now and then whether or not the lock is still held, as code does that was
// past its last check: the store has to stop it.
func (w *worker) stale(name string, token int64, until time.Time) {
	if w.rng.IntN(8) == 0 {
		w.rest(context.Background(), w.upTo(w.Expiry))
		w.write(name, token, until)
	}
}

// hold is a turn with renewal.
func (w *worker) hold(ctx context.Context, m *redlock.Mutex) {
	patience, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := time.AfterFunc(w.upTo(3*w.Expiry), cancel)
	var held context.Context
	ok := w.acquire(m, "hold", func() (err error) {
		held, err = m.Hold(patience)
		return err
	})
	stop.Stop()
	if !ok {
		return
	}
	token := m.Token()
	w.watch(held, m, token)
	w.stale(m.Name(), token, m.Until())
	w.unlock(context.Background(), m, token)
}

// do is a turn in a callback; its release is the library's own.
func (w *worker) do(ctx context.Context, m *redlock.Mutex) {
	patience, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := time.AfterFunc(w.upTo(3*w.Expiry), cancel)
	ran := false
	var token int64
	w.call(history.Event{Verb: "do", Name: m.Name()}, func(whole *history.Event) {
		err := m.Do(patience, func(held context.Context) error {
			stop.Stop()
			ran = true
			token, _ = redlock.TokenFromContext(held)
			whole.Kind, whole.At, whole.Result = history.Return, w.clock.now(), history.OK
			whole.Token, whole.Until = token, w.clock.at(m.Until())
			w.log.Add(*whole)
			w.watch(held, m, token)
			// The call that was logged as granted ends here: what follows is an unlock.
			w.begin(whole, "unlock")
			return nil
		})
		settle(whole, err)
	})
	stop.Stop()
	if !ran {
		return
	}
	w.stale(m.Name(), token, time.Time{})
}

// begin makes of e the start of another call.
func (w *worker) begin(e *history.Event, verb string) {
	e.Call, e.Kind, e.Verb, e.At, e.Until, e.Result = w.calls.Add(1), history.Invoke, verb, w.clock.now(), 0, ""
	w.log.Add(*e)
}

// watch keeps a lock for a while, and logs what it is told of it.
func (w *worker) watch(held context.Context, m *redlock.Mutex, token int64) {
	for left := w.rng.IntN(holdSteps); left > 0; left-- {
		before := time.Now()
		if held.Err() != nil {
			w.told(m.Name(), token, history.Lost, time.Time{})
			return
		}
		until := m.Until()
		// The context was alive after before. An until of zero came after it.
		if !until.IsZero() && !before.Before(until) {
			w.breach("%s, token %d: the held context was alive beyond the validity", m.Name(), token)
		}
		w.told(m.Name(), token, history.Valid, until)
		if w.rng.IntN(4) == 0 {
			w.write(m.Name(), token, until)
		}
		w.rest(held, w.upTo(w.Expiry/8))
	}
}

func (w *worker) told(name string, token int64, what string, until time.Time) {
	w.log.Add(history.Event{
		At: w.clock.now(), Client: w.ID, Kind: history.Told,
		Name: name, Token: token, Until: w.clock.at(until), Result: what,
	})
}

func (w *worker) extend(m *redlock.Mutex) {
	d := w.Expiry + w.upTo((extendFactor-1)*w.Expiry)
	w.call(history.Event{Verb: "extend", Name: m.Name(), Token: m.Token()}, func(e *history.Event) {
		_, err := m.ExtendFor(context.Background(), d)
		e.Until = w.clock.at(m.Until())
		settle(e, err)
	})
}

func (w *worker) unlock(ctx context.Context, m *redlock.Mutex, token int64) {
	w.call(history.Event{Verb: "unlock", Name: m.Name(), Token: token}, func(e *history.Event) {
		_, err := m.UnlockContext(ctx)
		settle(e, err)
	})
}

// write logs until, the validity the writer knew of, with the call.
func (w *worker) write(name string, token int64, until time.Time) {
	w.call(history.Event{Verb: "write", Name: name, Token: token, Until: w.clock.at(until)}, func(e *history.Event) {
		result, err := w.store.write(name, token)
		if e.Result = result; err != nil {
			e.Result = "no answer"
		}
	})
}
