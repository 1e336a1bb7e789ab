package redlocktest_test

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

type scriptCall struct {
	script string
	keys   []string
	args   []any
	hold   int64   // ms, of the guard, which depends on the uptime; 0: none
	edges  []int64 // us: moments before and after which it does different things
}

func pick[T any](w *world, from ...T) T { return from[w.rng.IntN(len(from))] }

func (w *world) chance(percent int) bool { return w.rng.IntN(100) < percent }

func (w *world) run(steps int) {
	for range steps {
		name := pick(w, w.names...)
		w.settle(name)
		switch {
		case w.chance(1): // or broken fences and far ballots pile up
			w.replace(name)
			w.story(w.names[len(w.names)-1])
		case !w.full && w.chance(9):
			w.disturb(name)
		case w.chance(2):
			w.outlive(name)
		default:
			w.call(name, w.randomCall(name))
		}
	}
}

// story is a run of calls that chance alone seldom makes: a lock that vanishes
// while two wait, one of whom listens, and a holder that renews.
func (w *world) story(name string) {
	k := companions(name)
	p := w.last.us + 2000
	acquire := func(id, member string) {
		w.call(name, scriptCall{script: "acquire", keys: k[:3], args: []any{valueOf(id, p), p, 8000, 8300, 0, member, w.rng.Int64N(9)}})
	}
	acquire("gA.n1.", "")
	acquire("gB.n2.", "w2#5")
	acquire("gB.n2.", "w1#5")
	for _, lost := range [][]string{k[:1], k[:2]} {
		w.remove(lost...)
		w.call(name, scriptCall{script: "leave", keys: []string{k[0], k[2]}, args: []any{"w3#5"}})
		p = max(p, w.last.us) + 2000
		w.call(name, scriptCall{script: "touch", keys: []string{k[0], k[1], k[4]}, args: []any{
			valueOf("gA.n1.", p), p, p, p + 1_000_000, 8000, 8300,
		}})
	}
}

func (w *world) remove(keys ...string) {
	for _, key := range keys {
		w.note("DEL %s", key)
		_, err := w.conn.Do("DEL", key)
		require.NoError(w.t, err)
		w.twin.Del(key)
	}
}

// outlive waits until the lock has expired, when it does so soon.
func (w *world) outlive(name string) {
	end, found := w.twin.Deadline(name)
	for found && end-w.last.ms() < 60 && end+expirySlack >= w.last.ms() {
		w.last, _ = w.dump(name)
	}
}

func (w *world) randomCall(name string) scriptCall {
	keys := companions(name)
	lock, fence, queue, marker, tomb := keys[0], keys[1], keys[2], keys[3], keys[4]
	id, px, keep, hold := w.idFor(lock), w.px(), pick(w, 40, 300, retention), w.hold()
	p, q, valid := w.ballot(name), w.ballot(name), w.validity()
	member := w.member()
	switch n := w.rng.IntN(100); {
	case n < 34:
		args := []any{valueOf(id, p), p, px, px + int64(keep), hold, pick(w, "", member, member), w.rng.Int64N(50)}
		takes := []string{lock, fence, queue, marker}
		if hold == 0 && w.chance(30) {
			takes, args = takes[:2], args[:4]
		}
		return scriptCall{"acquire", takes, args, hold, []int64{p - skew, p + skew}}
	case n < 58:
		args := []any{valueOf(id, p), p, q, valid, px, px + int64(keep), hold}
		if hold == 0 {
			args = args[:6]
		}
		return scriptCall{"touch", []string{lock, fence, tomb, marker}, args, hold, []int64{q - skew, q + skew, valid}}
	case n < 76:
		if value, held := w.twin.Value(lock); held && w.chance(40) { // as the holder does
			if dot := strings.LastIndexByte(value, '.'); dot >= 0 {
				if ballot, err := strconv.ParseInt(value[dot+1:], 10, 64); err == nil {
					id, p = value[:dot+1], ballot
				}
			}
		}
		return scriptCall{"release", []string{lock, fence, queue}, []any{valueOf(id, p), p, pick(w, 0, 1, 2)}[:pick(w, 2, 3, 3)], 0, []int64{p - 2*skew}}
	case n < 84:
		if queued := w.twin.Queue(queue); len(queued) > 0 {
			member = "w4#1" // one that was popped before
			if w.chance(50) {
				member = pick(w, queued...)
			}
		}
		return scriptCall{"leave", []string{lock, queue}, []any{member}, 0, nil}
	case n < 90:
		return scriptCall{"inspect", []string{lock, fence, queue}, nil, 0, nil}
	}
	value, held := w.twin.Value(lock)
	if !held || w.chance(20) {
		value = w.foreign()
	}
	return scriptCall{"break", []string{lock, fence, queue, tomb}, []any{value, p, px}, 0, []int64{p - 2*skew}}
}

func (w *world) id() string {
	return pick(w, "gA.n1.", "gA.n1.", "gA.n1.", "gB.n2.", "gB.n2.", "whole", "x.5", "")
}

// idFor is often the identity that holds the lock.
func (w *world) idFor(lock string) string {
	value, held := w.twin.Value(lock)
	if dot := strings.LastIndexByte(value, '.'); held && w.chance(40) {
		return value[:dot+1]
	}
	return w.id()
}

// member is a waiter on one of four channels, two of which somebody hears.
func (w *world) member() string {
	return pick(w, "w0#1", "w0#2", "w1#1", "w1", "w2#1", "w3#1", "w1#1#2", "#1")
}

// foreign is a value that looks more or less like one of a grant.
func (w *world) foreign() string {
	return pick(w, "whole", "x.5", "", ".7", "7", "foreign", "gA.n1.", "gA.n1.12x", "gA.n1.12\n",
		"gA.n1.99999999999999999", "gA.n1.9007199254740993", "gB.n2.0", "g\x00.n.\xff.3", "a..4")
}

// estimate is about the server's clock when the next call arrives: some calls
// fall on this side of a bound, some on the other.
func (w *world) estimate() int64 { return w.last.us + 100 + w.rng.Int64N(400) - 200 }

func (w *world) ballot(name string) int64 {
	c := w.fence(name)
	switch w.rng.IntN(12) {
	case 0:
		return w.estimate() + skew
	case 1:
		return max(0, w.estimate()-skew)
	case 2:
		return w.estimate() + 2*skew
	case 3:
		return c
	case 4:
		return c + 1
	case 5:
		return max(0, c-1)
	case 6:
		return pick(w, int64(0), 1, 1<<53-1)
	}
	return max(c+1, w.estimate())
}

func (w *world) fence(name string) int64 {
	text, _ := w.twin.Value(name + ":f")
	c, _ := strconv.ParseInt(text, 10, 64)
	return c
}

func (w *world) validity() int64 {
	return pick(w, 0, w.estimate(), w.estimate()+1_000_000, w.estimate()+1_000_000)
}

func (w *world) px() int64 {
	if w.chance(2) {
		return pick[int64](w, 0, -5)
	}
	return pick(w, 15+w.rng.Int64N(40), 500, 8000)
}

func (w *world) hold() int64 {
	if !w.guarded && w.chance(60) {
		return 0
	}
	up := (w.last.uptime - 1) * 1000
	if up < 0 {
		up = 0
	}
	return pick(w, 1, 300, up, up+1, up+25, 60_000)
}

// disturb changes a key by a plain command: a foreign client, an operator, an
// eviction, a fault.
func (w *world) disturb(name string) {
	keys := companions(name)
	key := pick(w, append(keys, keys[0], keys[0], keys[0], keys[1], keys[1])...)
	px := 15 + w.rng.Int64N(300)
	switch n := w.rng.IntN(100); {
	case n < 30:
		w.plainSet(keys[0], w.foreign(), pick(w, px, px, 0))
	case n < 74:
		w.remove(key)
	case n < 84:
		run := pick(w, "other", pick(w, w.runs...), pick(w, w.runs...))
		free := pick(w, 0, w.last.us, w.last.us+60_000_000)
		text := pick(w, "rubbish", "a b", fmt.Sprintf("%s %d", run, free), fmt.Sprintf("%s %d", run, free))
		w.plainSet(keys[3], text, pick(w, px, 0))
	case n < 90:
		w.plainSet(keys[1], pick(w, "rubbish", "007", "9007199254740993", "12345678901234567", "-1"), pick(w, px, px, px, 0))
	case n < 93:
		w.plainSet(keys[2], "not a queue", px)
	case n < 96:
		w.plainSet(keys[4], w.id(), pick(w, px, 0))
	default:
		w.plainZAdd(pick(w, keys[0], keys[1], keys[2]))
	}
	at, now := w.dump(name)
	before := w.last
	w.last = at
	if w.unclear(name, before, at) {
		w.giveUp(name)
		return
	}
	w.compareKeys(name, at, now, 2+at.ms()-before.ms())
}

// plainSet with px 0 makes a key that never expires.
func (w *world) plainSet(key, value string, px int64) {
	w.note("SET %q %q PX %d", key, value, px)
	args := []any{key, value}
	if px > 0 {
		args = append(args, "PX", px)
	}
	_, err := w.conn.Do("SET", args...)
	require.NoError(w.t, err)
	w.twin.Freeze(w.last.us)
	w.twin.Set(key, value, time.Duration(px)*time.Millisecond)
}

func (w *world) plainZAdd(key string) {
	member, score := w.member(), w.rng.Int64N(50)
	w.remove(key)
	w.note("ZADD %q %d %s", key, score, member)
	_, err := w.conn.Do("ZADD", key, score, member)
	require.NoError(w.t, err)
	require.NoError(w.t, w.twin.AddToQueue(key, member, float64(score)))
}
