package redlocktest

import (
	"math"
	"strconv"
	"strings"
)

// The Go twins of scripts/*.lua. Each reads like its Lua text, whose header
// states keys, arguments and reply; the differential test holds them together.

// words are KEYS or ARGV, counted from 1. A missing word is empty, and no
// command takes an empty key.
type words []string

func (w words) at(i int) string {
	if i > len(w) {
		return ""
	}
	return w[i-1]
}

type twin struct {
	run        func(s *session, keys, argv words) []int64
	keys, args int // the fewest it needs
}

var twins = map[string]twin{
	"acquire": {acquire, 2, 4},
	"release": {release, 3, 2},
	"touch":   {touch, 3, 6},
	"leave":   {leave, 2, 1},
	"inspect": {inspect, 3, 0},
	"break":   {breakLock, 4, 3},
}

func acquire(s *session, keys, argv words) []int64 {
	value, ballot, px, fencePX, member := argv.at(1), argv.at(2), number(argv.at(3)), number(argv.at(4)), argv.at(6)
	p := number(ballot)
	c, known := s.fence(keys.at(2))
	now := s.clock()
	near := abs(p-now) <= skewBound
	barred := int64(0)
	if hold := argv.at(5); hold != "" && hold != "0" {
		barred = s.quarantine(keys.at(4), number(hold), now, fencePX)
	}

	fenceLife := func() int64 {
		if known {
			return s.longest(keys.at(2), fencePX)
		}
		return fencePX
	}
	granted := func(life int64) []int64 {
		s.setPX(keys.at(2), ballot, life)
		if member != "" {
			_ = protect(func() { s.zrem(keys.at(3), member) })
		}
		return []int64{1, now}
	}

	var refused error
	if p > c && near && barred == 0 {
		var set bool
		life := fenceLife()
		refused = protect(func() { set = s.setNX(keys.at(1), value, px) })
		if set {
			return granted(life)
		}
	}

	held, isHeld := s.get(keys.at(1))
	if isHeld && !owned(held, value) {
		_, g, _ := split(held)
		ttl, rank := s.pttl(keys.at(1)), int64(-1)
		if member != "" {
			joined := protect(func() { s.zaddNX(keys.at(3), argv.at(7), member) })
			if joined == nil {
				s.pexpire(keys.at(3), s.longest(keys.at(3), max(ttl, 0)+fencePX-px))
				rank = s.zrank(keys.at(3), member)
			}
		}
		return []int64{2, now, c, ttl, g, rank}
	}
	if refused != nil {
		raise(refused)
	}
	if barred > 0 {
		return []int64{4, now, c, barred, 0, -1}
	}
	if !isHeld || p < c || !near {
		return []int64{3, now, c, 0, 0, -1}
	}
	life := fenceLife()
	s.setPX(keys.at(1), value, s.longest(keys.at(1), px))
	return granted(life)
}

func release(s *session, keys, argv words) []int64 {
	held, isHeld := s.get(keys.at(1))
	calls, tell := argv.at(3) != "0", argv.at(3) == "2"
	if isHeld && held == argv.at(1) && strings.HasSuffix(held, argv.at(2)) {
		s.del(keys.at(1))
		var popped *scored
		if calls {
			popped = s.zpopmin(keys.at(3))
		}
		if popped == nil {
			return []int64{1}
		}
		return []int64{1, 0, 0, 0, 0, s.handOver(popped, keys.at(3), keys.at(1), tell)}
	}
	code, ttl, g := int64(2), int64(0), int64(0)
	if isHeld {
		if owned(held, argv.at(1)) {
			s.del(keys.at(1))
			code = 1
		} else {
			code, ttl = 3, s.pttl(keys.at(1))
			_, g, _ = split(held)
		}
	}

	c, known := s.fence(keys.at(2))
	h, now := number(argv.at(2)), int64(0)
	if c < h {
		now = s.clock()
		if h <= now+2*skewBound {
			px := int64(retention)
			if known {
				px = s.longest(keys.at(2), px)
			}
			set := protect(func() { s.setPX(keys.at(2), argv.at(2), px) })
			if set == nil {
				c = h
			}
		}
	}

	woken := int64(0)
	if code != 3 && calls {
		woken = s.handOver(s.zpopmin(keys.at(3)), keys.at(3), keys.at(1), tell)
	}
	return []int64{code, now, c, ttl, g, woken}
}

func touch(s *session, keys, argv words) []int64 {
	value, q, px, fencePX := argv.at(1), number(argv.at(3)), number(argv.at(5)), number(argv.at(6))
	held, isHeld := s.get(keys.at(1))
	now := s.clock()
	c, known := s.fence(keys.at(2))

	if isHeld && !owned(held, value) {
		_, g, _ := split(held)
		return []int64{5, now, c, s.pttl(keys.at(1)), g, 0}
	}

	var code int64
	ttl := px
	switch {
	case isHeld:
		ttl = s.pttl(keys.at(1))
		if q != 0 || ttl >= 0 {
			if ttl > px {
				px, fencePX = ttl, ttl+retention
			}
			s.pexpire(keys.at(1), px)
		}
		if !s.pexpire(keys.at(2), s.longest(keys.at(2), fencePX)) {
			s.setPX(keys.at(2), argv.at(2), fencePX)
			c = number(argv.at(2))
		}
		code = 1
	case q > c && abs(q-now) <= skewBound && now < number(argv.at(4)) && !s.buried(keys.at(3), value, number(argv.at(2))):
		s.setPX(keys.at(1), value, px)
		s.setPX(keys.at(2), argv.at(3), s.longest(keys.at(2), fencePX))
		c = q
		code = 3
		if known {
			code = 2
		}
	default:
		return []int64{4, now, c, 0, 0, 0}
	}
	barred := int64(0)
	if hold := argv.at(7); hold != "" {
		barred = s.quarantine(keys.at(4), number(hold), now, fencePX)
	}
	return []int64{code, now, c, ttl, number(argv.at(2)), barred}
}

func leave(s *session, keys, argv words) []int64 {
	if s.zrem(keys.at(2), argv.at(1)) {
		return []int64{1}
	}
	if !s.exists(keys.at(1)) && s.handOver(s.zpopmin(keys.at(2)), keys.at(2), keys.at(1), true) == 1 {
		return []int64{2}
	}
	return []int64{3}
}

func inspect(s *session, keys, _ words) []int64 {
	held, isHeld := s.get(keys.at(1))
	c, _ := s.fence(keys.at(2))
	waiters := s.zcard(keys.at(3))
	if !isHeld {
		return []int64{0, s.clock(), c, 0, 0, waiters}
	}
	_, g, _ := split(held)
	return []int64{1, s.clock(), c, s.pttl(keys.at(1)), g, waiters}
}

func breakLock(s *session, keys, argv words) []int64 {
	held, isHeld := s.get(keys.at(1))
	c, known := s.fence(keys.at(2))
	now := s.clock()
	if isHeld && held != argv.at(1) {
		return []int64{3, now, c}
	}
	code, px := int64(2), number(argv.at(3))
	if isHeld {
		px = s.longest(keys.at(1), px)
		s.del(keys.at(1))
		code = 1
	}
	stone := argv.at(2)
	if stone == "0" {
		stone = "=" + identity(argv.at(1))
	}
	if old, found := s.get(keys.at(4)); found && ballotOf(old) > ballotOf(stone) {
		stone = old
	}
	s.setPX(keys.at(4), stone, s.longest(keys.at(4), px))
	g := number(argv.at(2))
	if c < g && g <= now+2*skewBound {
		keep := int64(retention)
		if known {
			keep = s.longest(keys.at(2), keep)
		}
		s.setPX(keys.at(2), argv.at(2), keep)
		c = g
	}
	s.handOver(s.zpopmin(keys.at(3)), keys.at(3), keys.at(1), true)
	return []int64{code, now, c}
}

// The rest is lib.lua, owner.lua, queue.lua and guard.lua.

// S in us and R in ms.
const (
	skewBound = 5_000_000
	retention = 20_000
)

func split(value string) (id string, ballot int64, ok bool) {
	dot := strings.LastIndexByte(value, '.')
	digits := value[dot+1:]
	if dot < 0 || !decimal(digits) || len(digits) > 16 {
		return "", 0, false
	}
	return value[:dot+1], number(digits), true
}

// identity is what the Lua has as split(value) or value.
func identity(value string) string {
	if id, _, ok := split(value); ok {
		return id
	}
	return value
}

func owned(held, value string) bool {
	id := identity(value)
	return held == id || identity(held) == id
}

func (s *session) fence(key string) (int64, bool) {
	c, found := s.get(key)
	if !found {
		return 0, false
	}
	if !decimal(c) || len(c) > 16 {
		raise(ServerError("ERR user_script: the fence key does not hold a ballot: " + key))
	}
	return number(c), true
}

func (s *session) buried(key, value string, token int64) bool {
	stone, found := s.get(key)
	return found && (stone == "="+identity(value) || ballotOf(stone) >= token)
}

func ballotOf(stone string) int64 {
	if !decimal(stone) {
		return 0
	}
	return number(stone)
}

func (s *session) longest(key string, px int64) int64 {
	return max(s.pttl(key), px)
}

func (s *session) handOver(popped *scored, queue, name string, tell bool) int64 {
	for popped != nil {
		channel, ticket, _ := strings.Cut(popped.member, "#")
		var heard int
		refused := protect(func() { heard = s.publish(channel, ticket+" "+name) })
		if refused != nil {
			s.zadd(queue, *popped)
			s.pexpire(queue, s.longest(queue, 20000))
			return 0
		}
		if heard > 0 {
			if tell {
				s.tellFirst(queue, name)
			}
			return 1
		}
		popped = s.zpopmin(queue)
	}
	return 0
}

// tellFirst is the part of hand_over that says to the first of a queue that it is.
func (s *session) tellFirst(queue, name string) {
	if first, found := s.zfirst(queue); found {
		channel, ticket, _ := strings.Cut(first, "#")
		_ = protect(func() { s.publish(channel, "+"+ticket+" "+name) })
	}
}

func (s *session) quarantine(marker string, hold, now, keep int64) int64 {
	run, uptime := s.info()
	up := (uptime - 1) * 1000
	text, _ := s.get(marker)
	seen, free := splitMarker(text)
	switch {
	case seen == run:
	case seen != "":
		free = now + hold*1000
	case up >= hold:
		free = 0
	default:
		free = now + (hold-up)*1000
	}
	if seen != run || s.pttl(marker) < hold {
		s.setPX(marker, run+" "+strconv.FormatInt(free, 10), hold+keep)
	}
	if free > now {
		return int64(math.Ceil(float64(free-now) / 1000))
	}
	return 0
}

// splitMarker takes a marker apart; seen is empty for any other text.
func splitMarker(text string) (seen string, free int64) {
	seen, digits, _ := strings.Cut(text, " ")
	if !decimal(digits) || !alphanumeric(seen) {
		return "", 0
	}
	return seen, number(digits)
}

// alphanumeric is the Lua pattern ^%w+$.
func alphanumeric(text string) bool {
	return text != "" && strings.IndexFunc(text, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) < 0
}

func abs(n int64) int64 { return max(n, -n) }
