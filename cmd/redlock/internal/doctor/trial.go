package doctor

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/pool"
)

// Trial is what became of a lock on one node, through the library's own scripts.
// Each text is an error, "" where all went well.
type Trial struct {
	Lock      string `json:"lock,omitempty"`
	Extend    string `json:"extend,omitempty"`
	Inspect   string `json:"inspect,omitempty"` // GET, for status and break
	Break     string `json:"break,omitempty"`
	Subscribe string `json:"subscribe,omitempty"`
	Publish   string `json:"publish,omitempty"`
	Guard     string `json:"guard,omitempty"` // INFO within a script
}

// trialBound is for the whole trial of a node.
const trialBound = 10 * time.Second

// wakePrefix is what the library's channels start with.
const wakePrefix = "redlock:wake:"

func (c Config) try(ctx context.Context, n Node) *Trial {
	ctx, cancel := context.WithTimeout(ctx, trialBound)
	defer cancel()
	t := &Trial{}
	locks, err := redlock.New([]pool.Pool{n.Pool}, redlock.WithExpiry(c.TTL))
	if err != nil {
		t.Lock = err.Error()
		return t
	}
	defer closeSoon(locks)
	name := c.Prefix + rand.Text()
	t.verbs(ctx, locks, name)
	if c.Guard && t.Lock == "" {
		t.Guard = tryGuard(ctx, locks, name+":guard", c.TTL)
	}
	t.notices(ctx, n)
	return t
}

func (t *Trial) verbs(ctx context.Context, locks *redlock.Redlock, name string) {
	m := locks.NewMutex(name)
	if t.Lock = text(m.LockContext(ctx)); t.Lock != "" {
		return
	}
	defer m.Unlock() //nolint:errcheck // nobody holds it any more, if Break could be tried
	_, err := m.ExtendContext(ctx)
	t.Extend = text(err)
	status, err := locks.Inspect(ctx, name)
	for _, node := range status.Nodes {
		err = errors.Join(err, node.Err)
	}
	if t.Inspect = text(err); t.Inspect == "" {
		t.Break = text(locks.Break(ctx, name))
	}
}

// tryGuard tells a node that refuses INFO from one that was restarted not long ago:
// that one waits, as it should.
func tryGuard(ctx context.Context, locks *redlock.Redlock, name string, ttl time.Duration) string {
	m := locks.NewMutex(name, redlock.WithRestartGuard(max(ttl, 11*time.Second)), redlock.WithTries(1))
	err := m.LockContext(ctx)
	if err == nil {
		_, _ = m.Unlock() // it expires
		return ""
	}
	if strings.Contains(err.Error(), "restarted: takes no part") {
		return ""
	}
	return text(err)
}

// notices tries SUBSCRIBE and PUBLISH apart from the scripts, which go on without
// them: waiters then have only their timers.
func (t *Trial) notices(ctx context.Context, n Node) {
	sub, ok := n.Pool.(pool.Subscriber)
	if !ok {
		return
	}
	channel := wakePrefix + "doctor:" + rand.Text()
	listening, heard, ended := make(chan struct{}), make(chan struct{}, 1), make(chan error, 1)
	ctx, cancel := context.WithTimeout(ctx, probeBound)
	defer cancel()
	go func() {
		ended <- sub.Subscribe(ctx, channel, func() { close(listening) }, func(string) {
			select {
			case heard <- struct{}{}:
			default:
			}
		})
	}()
	select {
	case <-listening:
	case err := <-ended:
		t.Subscribe = text(err)
		ended <- nil
	}
	t.Publish = publish(ctx, n, channel)
	if t.Subscribe == "" && t.Publish == "" {
		select {
		case <-heard:
		case <-ctx.Done():
			t.Publish = "a notice was published and never arrived"
		}
	}
	cancel()
	<-ended
}

func publish(ctx context.Context, n Node, channel string) string {
	conn, err := n.Dial(ctx)
	if err == nil {
		defer conn.Close() //nolint:errcheck // one command, already answered
		_, err = conn.Do("PUBLISH", channel, "")
	}
	return text(err)
}

// quorumTrial is a lock on all nodes together.
type quorumTrial struct {
	lock, unlock time.Duration
	err          string
}

func (c Config) tryQuorum(ctx context.Context) (t quorumTrial) {
	ctx, cancel := context.WithTimeout(ctx, trialBound)
	defer cancel()
	pools := make([]pool.Pool, len(c.Nodes))
	for i, n := range c.Nodes {
		pools[i] = n.Pool
	}
	locks, err := redlock.New(pools, redlock.WithExpiry(c.TTL))
	if err != nil {
		return quorumTrial{err: err.Error()}
	}
	defer closeSoon(locks)
	m := locks.NewMutex(c.Prefix + rand.Text())
	// The first one learns the clocks.
	for range 2 {
		started := time.Now()
		if err := m.LockContext(ctx); err != nil {
			return quorumTrial{err: strings.TrimPrefix(err.Error(), "redlock: ")}
		}
		t.lock = time.Since(started)
		started = time.Now()
		if _, err := m.UnlockContext(ctx); err != nil {
			return quorumTrial{err: strings.TrimPrefix(err.Error(), "redlock: ")}
		}
		t.unlock = time.Since(started)
	}
	return t
}

func closeSoon(locks *redlock.Redlock) {
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	_ = locks.Close(ctx) // what is left expires
}

func text(err error) string {
	if err == nil {
		return ""
	}
	// The node's own words: who it is stands beside them.
	var node *redlock.NodeError
	if errors.As(err, &node) {
		err = node.Err
	}
	return err.Error()
}
