package redlocktest

import (
	"math"
	"strconv"
	"strings"
)

// A session is one script run: what redis.call reaches from inside it. Its
// clock stands still, as in Redis.
type session struct {
	node     *Node // its lock is held
	now      int64 // us
	wrote    bool  // a write command has passed
	commands int
}

// A raised error ends the script, as redis.call does in Lua; protect turns it
// into the reply. Twins read like their Lua text because of it.
type raised struct{ err error }

func raise(err error) { panic(raised{err}) }

// protect is pcall.
func protect(f func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case raised:
			err = r.err
		default:
			panic(r)
		}
	}()
	f()
	return nil
}

func must2[T, U any](v T, w U, err error) (T, U) {
	if err != nil {
		raise(err)
	}
	return v, w
}

func must[T any](v T, err error) T {
	if err != nil {
		raise(err)
	}
	return v
}

type commandKind int

const (
	reads commandKind = iota
	writes
	grows // a write that a node out of memory refuses
)

const outOfMemory = ServerError("OOM command not allowed when used memory > 'maxmemory'.")

// enter is what Redis checks before a command inside a script.
func (s *session) enter(command string, kind commandKind) {
	s.commands++
	if err, found := s.node.refused[command]; found {
		raise(err)
	}
	// After a first write the script is let through: stopping half-way is worse.
	if kind == grows && s.node.full && !s.wrote {
		raise(outOfMemory)
	}
	s.wrote = s.wrote || kind != reads
}

// enterKey also refuses an empty key, which stands for one that was not passed.
func (s *session) enterKey(command string, kind commandKind, key string) {
	if key == "" {
		raise(ServerError("ERR Lua redis lib command arguments must be strings or integers"))
	}
	s.enter(command, kind)
}

func (s *session) keys() *store { return &s.node.keys }

func (s *session) ms() int64 { return s.now / 1000 }

func (s *session) clock() int64 {
	s.enter("TIME", reads)
	return s.now
}

func (s *session) get(key string) (string, bool) {
	s.enterKey("GET", reads, key)
	text, found, err := s.keys().get(key, s.ms())
	if err != nil {
		raise(err)
	}
	return text, found
}

func (s *session) exists(key string) bool {
	s.enterKey("EXISTS", reads, key)
	return s.keys().find(key, s.ms()) != nil
}

func (s *session) pttl(key string) int64 {
	s.enterKey("PTTL", reads, key)
	return s.keys().pttl(key, s.ms())
}

func (s *session) setPX(key, text string, px int64) {
	s.enterKey("SET", grows, key)
	if px <= 0 {
		raise(ServerError("ERR invalid expire time in 'set' command"))
	}
	s.keys().set(key, text, px, s.ms())
}

func (s *session) setNX(key, text string, px int64) bool {
	s.enterKey("SET", grows, key)
	if px <= 0 {
		raise(ServerError("ERR invalid expire time in 'set' command"))
	}
	if s.keys().find(key, s.ms()) != nil {
		return false
	}
	s.keys().set(key, text, px, s.ms())
	return true
}

func (s *session) del(key string) {
	s.enterKey("DEL", writes, key)
	s.keys().del(key, s.ms())
}

func (s *session) pexpire(key string, px int64) bool {
	s.enterKey("PEXPIRE", writes, key)
	return s.keys().pexpire(key, px, s.ms())
}

func (s *session) zaddNX(key, score, member string) {
	s.enterKey("ZADD", grows, key)
	if err := s.keys().zaddNX(key, float(score), member, s.ms()); err != nil {
		raise(err)
	}
}

func (s *session) zadd(key string, x scored) {
	s.enterKey("ZADD", grows, key)
	if err := s.keys().zadd(key, x.score, x.member, s.ms()); err != nil {
		raise(err)
	}
}

func (s *session) zrank(key, member string) int64 {
	s.enterKey("ZRANK", reads, key)
	return int64(must(s.keys().zrank(key, member, s.ms())))
}

func (s *session) zcard(key string) int64 {
	s.enterKey("ZCARD", reads, key)
	return int64(must(s.keys().zcard(key, s.ms())))
}

// zpopmin returns nil where there is none.
func (s *session) zpopmin(key string) *scored {
	s.enterKey("ZPOPMIN", writes, key)
	first, found, err := s.keys().zpopmin(key, s.ms())
	if err != nil {
		raise(err)
	}
	if !found {
		return nil
	}
	return &first
}

func (s *session) zfirst(key string) (member string, found bool) {
	s.enterKey("ZRANGE", reads, key)
	return must2(s.keys().zfirst(key, s.ms()))
}

func (s *session) zrem(key, member string) bool {
	s.enterKey("ZREM", writes, key)
	return must(s.keys().zrem(key, member, s.ms()))
}

func (s *session) publish(channel, payload string) int {
	s.enter("PUBLISH", reads)
	return s.node.publish(channel, payload)
}

// info is the part of INFO server that scripts read: the run id and the uptime
// in whole seconds, which Redis takes from its wall clock.
func (s *session) info() (runID string, uptime int64) {
	s.enter("INFO", reads)
	return s.node.runID, s.now/1e6 - s.node.started/1e6
}

func float(text string) float64 {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(f) {
		raise(ServerError("ERR value is not a valid float"))
	}
	return f
}

// number is tonumber for whole numbers, with the rounding of a Lua number above
// 2^53.
func number(text string) int64 {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) >= math.MaxInt64 {
		raise(ServerError("ERR user_script: not a whole number: " + text))
	}
	return int64(f)
}

// decimal is the Lua pattern ^%d+$.
func decimal(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}
