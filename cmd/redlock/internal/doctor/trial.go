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
// Each text is an error, "" where all went well or it was not tried.
type Trial struct {
	Lock      string `json:"lock,omitempty"`
	Eval      string `json:"eval,omitempty"` // of a script that the node does not know
	Extend    string `json:"extend,omitempty"`
	Unlock    string `json:"unlock,omitempty"`
	Wait      string `json:"wait,omitempty"`      // for a lock that is held
	HandOver  string `json:"hand_over,omitempty"` // unlock while somebody waits
	Queue     string `json:"queue,omitempty"`     // a waiter's place in it
	Leave     string `json:"leave,omitempty"`     // of a waiter that waits no longer
	Inspect   string `json:"inspect,omitempty"`   // GET, for status and break
	Break     string `json:"break,omitempty"`
	Subscribe string `json:"subscribe,omitempty"`
	Publish   string `json:"publish,omitempty"`
	Guard     string `json:"guard,omitempty"` // INFO within a script
}

// Bounds of the trial of a node. It finds what is refused, not what is slow, and what
// it leaves behind is to be gone soon: neither depends on the TTL of the locks.
const (
	trialBound   = 10 * time.Second
	trialExpiry  = 4 * time.Second
	trialTimeout = 2 * time.Second
	trialGuard   = 11 * time.Second // the shortest in whole seconds
)

func trialOptions() []redlock.Option {
	return []redlock.Option{redlock.WithExpiry(trialExpiry), redlock.WithNodeTimeout(trialTimeout)}
}

// wakePrefix is what the library's channels start with.
const wakePrefix = "redlock:wake:"

func (c Config) try(ctx context.Context, n Node) *Trial {
	ctx, cancel := context.WithTimeout(ctx, trialBound)
	defer cancel()
	t := &Trial{}
	locks, err := redlock.New([]pool.Pool{newTap(n.Pool)}, trialOptions()...)
	if err != nil {
		t.Lock = err.Error()
		return t
	}
	defer closeSoon(locks)
	name := c.Prefix + rand.Text()
	t.alone(ctx, locks, name)
	if c.Guard && t.Lock == "" {
		t.Guard = tryGuard(ctx, locks, name+":guard")
	}
	if t.Lock == "" {
		// A node that knows the scripts already was asked for none.
		t.Eval = do(ctx, n, "EVAL", "return {1}", 0)
	}
	t.notices(ctx, n)
	// Nobody queues who cannot be called, nor where the queue might stay for ever.
	if t.Lock == "" && t.Extend == "" && t.Unlock == "" && t.Subscribe == "" {
		t.queue(ctx, n, locks, name)
	}
	if t.Lock == "" && t.Inspect == "" && t.Unlock == "" && t.HandOver == "" {
		t.broken(ctx, locks, name)
	}
	return t
}

// alone is a lock that nobody else wants.
func (t *Trial) alone(ctx context.Context, locks *redlock.Redlock, name string) {
	m := locks.NewMutex(name)
	if t.Lock = text(m.LockContext(ctx)); t.Lock != "" {
		return
	}
	_, err := m.ExtendContext(ctx)
	t.Extend = text(err)
	status, err := locks.Inspect(ctx, name)
	for _, node := range status.Nodes {
		err = errors.Join(err, node.Err)
	}
	t.Inspect = text(err)
	_, err = m.UnlockContext(ctx)
	t.Unlock = text(err)
}

func (t *Trial) broken(ctx context.Context, locks *redlock.Redlock, name string) {
	m := locks.NewMutex(name)
	err := m.LockContext(ctx)
	if err == nil {
		err = locks.Break(ctx, name)
	}
	t.Break = text(err)
	_, _ = m.UnlockContext(ctx) // nobody holds it any more, unless Break has failed
}

// tryGuard tells a node that refuses INFO from one that was restarted not long ago:
// that one waits, as it should.
func tryGuard(ctx context.Context, locks *redlock.Redlock, name string) string {
	m := locks.NewMutex(name, redlock.WithRestartGuard(trialGuard), redlock.WithTries(1))
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
	t.Publish = do(ctx, n, "PUBLISH", channel, "")
	if t.Subscribe == "" && t.Publish == "" {
		select {
		case <-heard:
		case <-ctx.Done():
			t.Publish = "a notice was published and never arrived"
		}
	}
	cancel()
	<-ended //nolint:errcheck // it was told to end
}

func do(ctx context.Context, n Node, command string, args ...any) string {
	conn, err := n.Dial(ctx)
	if err == nil {
		defer conn.Close() //nolint:errcheck // one command, already answered
		_, err = conn.Do(command, args...)
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
	// With the node timeout of a longer expiry, too: it is what --ttl grants a node.
	locks, err := redlock.New(pools, redlock.WithExpiry(min(c.TTL, trialExpiry)), redlock.WithNodeTimeout(c.nodeTimeout()))
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
	var script *scriptError
	if errors.As(err, &script) {
		return script.text()
	}
	return err.Error()
}
