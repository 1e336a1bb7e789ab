package demo

import (
	"context"
	"fmt"
	"sync"
	"syscall"

	"github.com/quorumlock/redlock/pool"
)

// link is one client's way to one node. Cut, it is the node's fault for that
// client alone: others reach it.
type link struct {
	pool.Pool

	mu      sync.Mutex
	severed chan struct{} // closed while the link is cut
	isCut   bool
}

var (
	_ pool.Subscriber = (*link)(nil)
	_ pool.Addresser  = (*link)(nil)
)

func newLink(p pool.Pool) *link { return &link{Pool: p, severed: make(chan struct{})} }

func (l *link) cut(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case on && !l.isCut:
		close(l.severed)
	case !on && l.isCut:
		l.severed = make(chan struct{})
	}
	l.isCut = on
}

func (l *link) state() (severed <-chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isCut {
		err = fmt.Errorf("dial %s: %w", l.Addr(), syscall.EHOSTUNREACH)
	}
	return l.severed, err
}

func (l *link) Addr() string {
	if a, ok := l.Pool.(pool.Addresser); ok {
		return a.Addr()
	}
	return ""
}

// Eval implements pool.Pool.
func (l *link) Eval(ctx context.Context, s *pool.Script, keys []string, args ...any) ([]int64, error) {
	if _, err := l.state(); err != nil {
		return nil, err
	}
	return l.Pool.Eval(ctx, s, keys, args...)
}

// Subscribe implements pool.Subscriber; the subscription ends when the link is cut.
func (l *link) Subscribe(ctx context.Context, channel string, ready func(), message func(string)) error {
	severed, err := l.state()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-severed:
			cancel()
		case <-ctx.Done():
		}
	}()
	defer func() {
		cancel()
		<-watched
	}()
	return l.Pool.(pool.Subscriber).Subscribe(ctx, channel, ready, message)
}
