package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/pool"
)

// bare sends the very scripts and arguments that redlock sends, without redlock:
// what a user would write by hand with the client. It is what the wire costs.
type bare struct {
	*conns
	calls *recorder
	r     *redlock.Redlock // over the recorder; it makes one pair for each name
	last  atomic.Int64     // the highest ballot sent

	loaded bool // the nodes know the scripts; newMutex is not for concurrent use
}

func newBare(c *conns) (*bare, error) {
	b := &bare{conns: c, calls: &recorder{next: c.nodes[0]}}
	var err error
	b.r, err = redlock.New([]pool.Pool{b.calls})
	return b, err
}

func (b *bare) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeBound)
	defer cancel()
	return errors.Join(b.r.Close(ctx), b.conns.close())
}

// ballot is by this machine's clock, which is the servers' as well.
func (b *bare) ballot() int64 {
	p := time.Now().UnixMicro()
	for {
		last := b.last.Load()
		p = max(p, last+1)
		if b.last.CompareAndSwap(last, p) {
			return p
		}
	}
}

// recorder notes the script calls that pass through it.
type recorder struct {
	next pool.Pool

	mu   sync.Mutex
	seen []call // guarded by mu
}

type call struct {
	script *pool.Script
	keys   []string
	args   []any
}

func (r *recorder) Eval(ctx context.Context, s *pool.Script, keys []string, args ...any) ([]int64, error) {
	r.mu.Lock()
	r.seen = append(r.seen, call{s, append([]string(nil), keys...), append([]any(nil), args...)})
	r.mu.Unlock()
	return r.next.Eval(ctx, s, keys, args...)
}

func (r *recorder) take() []call {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := r.seen
	r.seen = nil
	return seen
}

// bareMutex locks and unlocks one name. It is not for concurrent use.
type bareMutex struct {
	b                *bare
	acquire, release *command
}

// newMutex has redlock lock and unlock the name once, to learn what it sends.
func (b *bare) newMutex(name string) (*bareMutex, error) {
	m := b.r.NewMutex(name)
	b.calls.take()
	if err := m.Lock(); err != nil {
		return nil, err
	}
	token, value := strconv.FormatInt(m.Token(), 10), m.Value()
	if _, err := m.Unlock(); err != nil {
		return nil, err
	}
	calls := map[string]call{}
	for _, c := range b.calls.take() {
		calls[c.script.Name()] = c // a first acquire may be sent twice
	}
	acquire, release := calls["acquire"], calls["release"]
	if acquire.script == nil || release.script == nil {
		return nil, fmt.Errorf("bare: redlock sent %d kinds of script, not acquire and release", len(calls))
	}
	if !b.loaded {
		if err := b.load(acquire.script, release.script); err != nil {
			return nil, err
		}
		b.loaded = true
	}
	out := &bareMutex{b: b}
	var err error
	if out.acquire, err = newCommand(acquire, token, value, len(b.wire)); err != nil {
		return nil, err
	}
	out.release, err = newCommand(release, token, value, len(b.wire))
	return out, err
}

// command is one script call, ready to be sent with another ballot, in the forms that
// clients take.
type command struct {
	words []any // EVALSHA and all that follows

	hash       string
	keys, args []string

	identity string // of the value, which ends with the ballot
	values   []int  // positions of the value in args
	ballots  []int  // positions of the ballot alone
	codes    []int64
}

func newCommand(c call, token, value string, nodes int) (*command, error) {
	identity, found := strings.CutSuffix(value, token)
	if !found {
		return nil, fmt.Errorf("bare: value %s does not end with token %s", value, token)
	}
	cmd := &command{hash: c.script.Hash(), keys: c.keys, identity: identity, codes: make([]int64, nodes)}
	cmd.words = append(cmd.words, "EVALSHA", c.script.Hash(), len(c.keys))
	for _, k := range c.keys {
		cmd.words = append(cmd.words, k)
	}
	for i, a := range c.args {
		text := fmt.Sprint(a)
		switch text {
		case token:
			cmd.ballots = append(cmd.ballots, i)
		case value:
			cmd.values = append(cmd.values, i)
		}
		cmd.args = append(cmd.args, text)
		cmd.words = append(cmd.words, text)
	}
	if len(cmd.ballots) == 0 || len(cmd.values) == 0 {
		return nil, fmt.Errorf("bare: %s has no ballot or no value among %v", c.script.Name(), c.args)
	}
	return cmd, nil
}

func (c *command) setBallot(ballot string) {
	c.setArgs(c.ballots, ballot)
	c.setArgs(c.values, c.identity+ballot)
}

func (c *command) setArgs(positions []int, text string) {
	boxed := any(text)
	for _, i := range positions {
		c.args[i] = text
		c.words[len(c.words)-len(c.args)+i] = boxed
	}
}

// lockUnlock is one pair: to all nodes at once, wait for all replies, next.
func (m *bareMutex) lockUnlock() error {
	ballot := strconv.FormatInt(m.b.ballot(), 10)
	if err := m.b.send(m.acquire, ballot); err != nil {
		return err
	}
	return m.b.send(m.release, ballot)
}

func (b *bare) send(c *command, ballot string) error {
	c.setBallot(ballot)
	var all sync.WaitGroup
	for i, w := range b.wire {
		all.Go(func() { c.codes[i] = w.evalsha(c) })
	}
	all.Wait()
	yes := 0
	for _, code := range c.codes {
		if code == 1 { // granted, released
			yes++
		}
	}
	if yes <= len(b.wire)/2 {
		return fmt.Errorf("bare: no quorum: %v", c.codes)
	}
	return nil
}

// load makes the scripts known to every node: the bare loop has no fallback.
func (b *bare) load(scripts ...*pool.Script) error {
	var errs []error
	for _, w := range b.wire {
		for _, s := range scripts {
			errs = append(errs, w.load(s.Source()))
		}
	}
	return errors.Join(errs...)
}
