package redlock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"
)

// Mutex is a lock on one name over all nodes. It is safe for concurrent use, with
// the habits of sync.Mutex: a second Lock waits until the present grant is
// unlocked, even past the grant's expiry, for its user is still at work. A Mutex
// is cheap; use one for each user of a lock.
type Mutex struct {
	r    *Redlock
	name string
	line line // of turns
	*settings
	names []keyWords    // one for each name
	gate  chan struct{} // holds one entry while a grant is out

	mu    sync.Mutex
	grant *grant // guarded by mu; nil when nothing is held
	hold  *hold  // guarded by mu; the renewal of grant, if any
}

// NewMutex makes a mutex for a name, with the options of New and then opts. An
// invalid option or an empty name surfaces as ErrInvalidOption from every verb.
func (r *Redlock) NewMutex(name string, opts ...Option) *Mutex {
	return r.newMutex(name, []string{name}, opts)
}

func (r *Redlock) newMutex(name string, names []string, opts []Option) *Mutex {
	m := &Mutex{r: r, name: name, line: line{name: name}, settings: r.settings, gate: make(chan struct{}, 1)}
	if len(opts) > 0 {
		m.settings = newSettings(r.config.with(opts))
	}
	for _, name := range names {
		if name == "" {
			m.refuse("NewMutex", `""`, "the name must not be empty")
		}
	}
	if m.config.err != nil {
		return m
	}
	m.names = make([]keyWords, len(names))
	for i, name := range names {
		m.names[i] = keysOf(name).words()
	}
	if m.config.value != "" {
		m.grant = adopt(m.config.value, len(r.nodes), r.quorum)
	}
	return m
}

// refuse makes every verb fail for what the mutex was made with.
func (m *Mutex) refuse(option string, value any, why string) {
	c := m.config // which the factory and other mutexes may share
	c.invalid(option, value, why)
	m.settings = newSettings(c)
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// Name is the name of the lock.
func (m *Mutex) Name() string { return m.name }

// Value is what the nodes hold for the present grant; "" when nothing is held.
// Given to WithValue in another process, it hands the lock over.
func (m *Mutex) Value() string {
	if g := m.current(); g != nil {
		return g.value()
	}
	return ""
}

// Token is the fencing token of the present grant, 0 when nothing is held. A
// later grant of the same name has a higher one, whatever clocks and pauses did:
// a resource that refuses tokens below the highest it has seen is safe.
func (m *Mutex) Token() int64 {
	if g := m.current(); g != nil {
		return g.token
	}
	return 0
}

// Until is when the present grant's validity ends if it is not extended; zero
// when nothing is held.
func (m *Mutex) Until() time.Time {
	if g := m.current(); g != nil {
		return g.lease.validity()
	}
	return time.Time{}
}

// Valid reads the clocks and reports whether the lock is held now. It is right
// even just after the process was suspended, but says nothing of a moment later.
func (m *Mutex) Valid() bool {
	g := m.current()
	if g == nil {
		return false
	}
	now := time.Now()
	// An adopted grant is not over, but nothing is known of it before an extend.
	return g.lease.alive(now) && g.lease.validAt(now)
}

func (m *Mutex) current() *grant {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.grant
}

// Lock is LockContext without an end to waiting.
func (m *Mutex) Lock() error { return m.LockContext(context.Background()) }

// TryLock is TryLockContext with the node timeout as its only limit.
func (m *Mutex) TryLock() error { return m.TryLockContext(context.Background()) }

// LockContext acquires the lock. It waits for a busy lock until ctx ends (or the
// tries of WithTries are used up), fails after three attempts when no quorum of
// nodes can be reached, and at once when they refuse (password, rights).
//
// A failure matches ErrFailed, and ErrTaken (*TakenError), ErrNoQuorum
// (*NodeError), ErrInvalidOption, ErrClosed or ctx's error. It leaves nothing
// behind on any node.
func (m *Mutex) LockContext(ctx context.Context) error {
	return m.acquire(ctx, m.config.tries, true)
}

// TryLockContext makes one attempt and does not wait: a lock that is held by
// another is ErrTaken at once.
func (m *Mutex) TryLockContext(ctx context.Context) error {
	return m.acquire(ctx, 1, false)
}

func (m *Mutex) acquire(ctx context.Context, tries int, wait bool) error {
	// Before it is looked whether Close has begun, which waits for what came before it:
	// between two rounds an attempt has no request out, and may yet have to be undone.
	m.r.tasks.add(1)
	defer m.r.tasks.done()
	if err := m.usable(ctx); err != nil {
		return fail("lock", m.name, ErrFailed, err)
	}
	started := time.Now()
	ctx = m.eyes.start(ctx, "lock", m.name)
	if err := m.enter(ctx, wait); err != nil {
		m.eyes.done(ctx, VerbEvent{Verb: "lock", Name: m.name, Err: err, Duration: time.Since(started)})
		return err
	}
	granted := false
	defer func() {
		if !granted { // also when a function of the user's panics
			<-m.gate
		}
	}()
	g, attempts, err := m.contend(ctx, tries)
	e := VerbEvent{Verb: "lock", Name: m.name, Err: err, Duration: time.Since(started), Attempts: attempts}
	if granted = err == nil; granted {
		m.mu.Lock()
		m.grant = g
		m.mu.Unlock()
		e.Token, e.Nodes, e.Degraded = g.token, g.lease.count(time.Now()), g.degraded.Load()
	}
	m.eyes.done(ctx, e)
	return err
}

// usable checks what every verb needs.
func (m *Mutex) usable(ctx context.Context) error {
	if m.config.err != nil {
		return m.config.err
	}
	if m.r.closed() {
		return ErrClosed
	}
	return ctx.Err()
}

// enter waits for the grant that is out on this very Mutex.
func (m *Mutex) enter(ctx context.Context, wait bool) error {
	select {
	case m.gate <- struct{}{}:
		return nil
	default:
	}
	if !wait {
		return fail("lock", m.name, ErrFailed, m.takenHere())
	}
	select {
	case m.gate <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fail("lock", m.name, ErrFailed, ctx.Err(), m.takenHere())
	case <-m.r.closing:
		return fail("lock", m.name, ErrFailed, ErrClosed)
	}
}

// takenHere describes the grant that is out on this very Mutex.
func (m *Mutex) takenHere() error {
	t := &TakenError{Name: m.name}
	if g := m.current(); g != nil {
		now := time.Now()
		t.TTL, t.Token = g.remaining(now), g.token
		for i := range m.r.nodes {
			if g.lease.holds(i, now) {
				t.Nodes = append(t.Nodes, i)
			}
		}
	}
	return t
}

// Unlock is UnlockContext without a limit but the node timeout.
func (m *Mutex) Unlock() (bool, error) { return m.UnlockContext(context.Background()) }

// UnlockContext releases the lock on every node and returns once a quorum has
// confirmed it; the rest is finished in the background. The grant is over
// whatever is returned: even when ctx has ended already, all nodes are told.
//
// It returns true when the lock was held until now. An error matches ErrNotHeld
// when there is no grant, ErrExpired when the grant ran out before, ErrTaken when
// somebody else has the lock, ErrNoQuorum (*NodeError) when too few nodes
// answered, or ctx's error.
func (m *Mutex) UnlockContext(ctx context.Context) (bool, error) {
	if m.config.err != nil {
		return false, fail("unlock", m.name, m.config.err)
	}
	m.mu.Lock()
	g, h := m.grant, m.hold
	m.grant, m.hold = nil, nil
	m.mu.Unlock()
	if g == nil {
		return false, fail("unlock", m.name, ErrNotHeld)
	}
	if h != nil {
		h.stop(context.Canceled)
	}
	if g.won != nil {
		defer func() { <-m.gate }()
	}
	started := time.Now()
	ctx = m.eyes.start(ctx, "unlock", m.name)
	err := m.release(ctx, g)
	m.eyes.done(ctx, VerbEvent{Verb: "unlock", Name: m.name, Err: err, Duration: time.Since(started), Token: g.token, Degraded: err == nil && g.degraded.Load()})
	return err == nil, err
}

// Extend is ExtendContext without a limit but the node timeout.
func (m *Mutex) Extend() (bool, error) { return m.ExtendContext(context.Background()) }

// ExtendContext renews the grant for another expiry, counted from now. It never
// shortens it. Nodes that lost or never had the lock get it again while the
// validity is unbroken.
//
// An error matches ErrExtendFailed and ErrNotHeld, ErrExpired (ran out or lost,
// final), ErrTaken, ErrNoQuorum or ctx's error. After ErrNoQuorum or ctx's error,
// unless it matches ErrExpired too, the grant is still good until Until, and Extend may
// be tried again.
func (m *Mutex) ExtendContext(ctx context.Context) (bool, error) {
	return m.ExtendFor(ctx, m.config.expiry)
}

// ExtendFor is ExtendContext with another life than the expiry, in whole
// milliseconds.
func (m *Mutex) ExtendFor(ctx context.Context, d time.Duration) (bool, error) {
	c := m.config
	if c.err == nil {
		c.expiry = d.Truncate(time.Millisecond)
		if d < time.Millisecond || c.expiry <= drift(d, c.driftFactor) {
			c.invalid("ExtendFor", d, "leaves no validity")
		}
		if d > longestLife {
			c.invalid("ExtendFor", d, fmt.Sprintf("must be at most %v", longestLife))
		}
		if c.guard > 0 && d > c.guard {
			c.invalid("ExtendFor", d, fmt.Sprintf("is above the longest hold that WithRestartGuard(%v) allows", c.guard))
		}
	}
	if c.err != nil {
		return false, fail("extend", m.name, ErrExtendFailed, c.err)
	}
	if err := m.usable(ctx); err != nil && !errors.Is(err, ErrClosed) {
		return false, fail("extend", m.name, ErrExtendFailed, err)
	}
	g := m.current()
	if g == nil {
		return false, fail("extend", m.name, ErrExtendFailed, ErrNotHeld)
	}
	started := time.Now()
	ctx = m.eyes.start(ctx, "extend", m.name)
	err := m.extend(ctx, g, c.expiry)
	m.eyes.done(ctx, VerbEvent{Verb: "extend", Name: m.name, Err: err, Duration: time.Since(started), Token: g.token, Nodes: g.lease.count(time.Now()), Degraded: err == nil && g.degraded.Load()})
	return err == nil, err
}
