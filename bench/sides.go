package main

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/quorumlock/redlock"
)

// The libraries, as the figures name them.
const (
	nameRedlock     = "redlock"
	nameRedsync     = "redsync"
	nameBare        = "bare"
	nameRedislock   = "redislock"
	nameRueidislock = "rueidislock"
)

// oneServerSides lock on a single server, and so do a fifth of the work.
var oneServerSides = []string{nameRedislock, nameRueidislock}

const (
	closeBound = 15 * time.Second
	peerExpiry = 8 * time.Second // redlock's and redsync's by default
)

// ours is a Redlock and its connections.
type ours struct {
	*redlock.Redlock
	conns *conns
}

func newOurs(open func([]string) (*conns, error), addrs []string) (*ours, error) {
	c, err := open(addrs)
	if err != nil {
		return nil, err
	}
	r, err := redlock.New(c.nodes)
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	return &ours{r, c}, nil
}

func (o *ours) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeBound)
	defer cancel()
	return errors.Join(o.Close(ctx), o.conns.close())
}

// theirs is a Redsync and its connections.
type theirs struct {
	*redsync.Redsync
	conns *conns
}

func newTheirs(open func([]string) (*conns, error), addrs []string) (*theirs, error) {
	c, err := open(addrs)
	if err != nil {
		return nil, err
	}
	return &theirs{redsync.New(c.redsync...), c}, nil
}

func (t *theirs) close() error { return t.conns.close() }

// one is redislock on its single server.
type one struct {
	*redislock.Client
	conn *goredis.Client
}

func newOne(addr string) *one {
	c := newGoRedis(addr)
	return &one{redislock.New(c), c}
}

func newLocker(addr string) (rueidislock.Locker, error) {
	return rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: []string{addr}},
		KeyMajority:    1,
		KeyValidity:    peerExpiry,
		ExtendInterval: peerExpiry / 3, // as redlock does
		NoLoopTracking: true,
		// By default 20 ms: on a busy machine it would take that for a node that is down,
		// and wait for a notice about a key that nobody holds.
		TryNextAfter: 2 * time.Second,
	})
}

// A side is one of those compared in throughput.
type side struct {
	client, name string
	// pair makes the function that locks and unlocks one name, for one goroutine.
	pair  func(name string) (func() error, error)
	close func() error
}

// makeSides makes those that the options name, over servers.
func makeSides(o *options, addrs []string) (all []side, done func() error, err error) {
	done = func() error {
		var errs []error
		for _, s := range all {
			errs = append(errs, s.close())
		}
		return errors.Join(errs...)
	}
	makers := []struct {
		name string
		make func(client, []string) (side, error)
		over string // the only client that it has; "" if any
	}{
		{nameRedlock, redlockSide, ""},
		{nameRedsync, redsyncSide, ""},
		{nameBare, bareSide, ""},
		{nameRedislock, redislockSide, clientGoRedis},
		{nameRueidislock, rueidislockSide, clientRueidis},
	}
	for _, c := range clients {
		for _, m := range makers {
			left := m.over != "" && m.over != c.name || m.name == nameRedsync && c.name == clientValkey
			if left || !o.wantsOver(c.name, m.name) {
				continue
			}
			s, err := m.make(c, addrs)
			if err != nil {
				return nil, nil, errors.Join(err, done())
			}
			all = append(all, s)
		}
	}
	return all, done, nil
}

// pairOf is a lock and an unlock of what both libraries have.
func pairOf(m mutex) func() error {
	return func() error {
		if err := m.Lock(); err != nil {
			return err
		}
		_, err := m.Unlock()
		return err
	}
}

func redlockSide(c client, addrs []string) (side, error) {
	us, err := newOurs(c.open, addrs)
	if err != nil {
		return side{}, err
	}
	return side{c.name, nameRedlock, func(name string) (func() error, error) {
		return pairOf(us.NewMutex(name)), nil
	}, us.close}, nil
}

func redsyncSide(c client, addrs []string) (side, error) {
	them, err := newTheirs(c.open, addrs)
	if err != nil {
		return side{}, err
	}
	return side{c.name, nameRedsync, func(name string) (func() error, error) {
		return pairOf(them.NewMutex(name)), nil
	}, them.close}, nil
}

func bareSide(c client, addrs []string) (side, error) {
	conns, err := c.open(addrs)
	if err != nil {
		return side{}, err
	}
	b, err := newBare(conns)
	if err != nil {
		return side{}, errors.Join(err, conns.close())
	}
	return side{c.name, nameBare, func(name string) (func() error, error) {
		m, err := b.newMutex(name)
		if err != nil {
			return nil, err
		}
		return m.lockUnlock, nil
	}, b.close}, nil
}

func redislockSide(c client, addrs []string) (side, error) {
	l := newOne(addrs[0])
	return side{c.name, nameRedislock, func(name string) (func() error, error) {
		return func() error {
			held, err := l.Obtain(context.Background(), name, peerExpiry, nil)
			if err != nil {
				return err
			}
			return held.Release(context.Background())
		}, nil
	}, l.conn.Close}, nil
}

func rueidislockSide(c client, addrs []string) (side, error) {
	l, err := newLocker(addrs[0])
	if err != nil {
		return side{}, err
	}
	return side{c.name, nameRueidislock, func(name string) (func() error, error) {
		return func() error {
			_, cancel, err := l.TryWithContext(context.Background(), name)
			if err == nil {
				cancel() // returns when it is released
			}
			return err
		}, nil
	}, func() error { l.Close(); return nil }}, nil
}
