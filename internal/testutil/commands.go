package testutil

import (
	"fmt"
	"sort"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

const (
	dialBound  = time.Second
	replyBound = 2 * time.Second
)

// Conn opens a connection past any proxy, logged in when the server was started
// with --requirepass. Each reply is waited for 2 s at most. The caller closes it.
func (s *Server) Conn() (redis.Conn, error) {
	opts := []redis.DialOption{
		redis.DialConnectTimeout(dialBound),
		redis.DialReadTimeout(replyBound),
		redis.DialWriteTimeout(replyBound),
	}
	if s.password != "" {
		opts = append(opts, redis.DialPassword(s.password))
	}
	return redis.Dial("tcp", s.Addr(), opts...)
}

// Do sends one command on a connection of its own: the command's name, then its
// arguments. It is for assertions and set-up, not for load.
func (s *Server) Do(args ...any) (any, error) {
	if len(args) == 0 {
		return nil, fmt.Errorf("testutil: Do without a command")
	}
	c, err := s.Conn()
	if err != nil {
		return nil, err
	}
	defer c.Close() //nolint:errcheck // one command, already answered
	return c.Do(fmt.Sprint(args[0]), args[1:]...)
}

// MustDo is Do for a test: an error fails it.
func (s *Server) MustDo(t testing.TB, args ...any) any {
	t.Helper()
	reply, err := s.Do(args...)
	if err != nil {
		t.Fatalf("redis-server %s: %v: %v", s.Addr(), args, err)
	}
	return reply
}

// SetUser makes an ACL user that is on, has the password "pw" and the given
// rights. Rights on channels are left out on a server that knows none: before
// Redis 6.2 every channel is open to all.
func (s *Server) SetUser(t testing.TB, name string, rights ...string) {
	t.Helper()
	words := []any{"ACL", "SETUSER", name, "on", ">pw"}
	closable := s.HasChannelRights(t)
	for _, right := range rights {
		ofChannels := right[0] == '&' || right == "resetchannels" || right == "allchannels"
		if closable || !ofChannels {
			words = append(words, right)
		}
	}
	s.MustDo(t, words...)
}

// HasChannelRights reports whether the server's access lists cover channels: Redis
// 6.2 and later, every Valkey.
func (s *Server) HasChannelRights(t testing.TB) bool {
	t.Helper()
	fields, err := redis.Values(s.MustDo(t, "ACL", "GETUSER", "default"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		if field, _ := redis.String(fields[i], nil); field == "channels" {
			return true
		}
	}
	return false
}

// Keys lists the server's keys in order.
func (s *Server) Keys() ([]string, error) {
	keys, err := redis.Strings(s.Do("KEYS", "*"))
	sort.Strings(keys)
	return keys, err
}
