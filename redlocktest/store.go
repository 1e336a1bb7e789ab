package redlocktest

import (
	"cmp"
	"maps"
	"slices"
)

const wrongType = ServerError("WRONGTYPE Operation against a key holding the wrong kind of value")

// NoExpiry is the time to live of a key that never expires.
const NoExpiry = -1

type scored struct {
	member string
	score  float64
}

// An entry is a string or a sorted set; a set is never empty.
type entry struct {
	text     string
	set      []scored // by score, then member
	isSet    bool
	deadline int64 // ms of the node's clock; 0: none
}

// A store holds keys with expiry. Every method takes the node's time in ms. It
// has no lock: the node's covers it.
type store struct {
	entries map[string]*entry
}

func newStore() store { return store{entries: make(map[string]*entry)} }

// find drops the key when its time is over. As in Redis a key lives through the
// millisecond of its deadline, so a time to live of 0 can be seen.
func (s *store) find(key string, now int64) *entry {
	e := s.entries[key]
	if e != nil && e.deadline != 0 && now > e.deadline {
		delete(s.entries, key)
		return nil
	}
	return e
}

func (s *store) findSet(key string, now int64) (*entry, error) {
	e := s.find(key, now)
	if e != nil && !e.isSet {
		return nil, wrongType
	}
	return e, nil
}

func (s *store) get(key string, now int64) (string, bool, error) {
	e := s.find(key, now)
	if e == nil {
		return "", false, nil
	}
	if e.isSet {
		return "", false, wrongType
	}
	return e.text, true, nil
}

// set with px 0 makes a key that never expires.
func (s *store) set(key, text string, px, now int64) {
	e := &entry{text: text}
	if px > 0 {
		e.deadline = now + px
	}
	s.entries[key] = e
}

func (s *store) del(key string, now int64) bool {
	found := s.find(key, now) != nil
	delete(s.entries, key)
	return found
}

// pttl is -2 for a missing key and -1 for one without expiry.
func (s *store) pttl(key string, now int64) int64 {
	e := s.find(key, now)
	switch {
	case e == nil:
		return -2
	case e.deadline == 0:
		return NoExpiry
	}
	return e.deadline - now
}

func (s *store) pexpire(key string, px, now int64) bool {
	e := s.find(key, now)
	if e == nil {
		return false
	}
	e.deadline = now + px
	if px <= 0 {
		delete(s.entries, key)
	}
	return true
}

func compareScored(a, b scored) int {
	return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.member, b.member))
}

func (e *entry) rank(member string) int {
	return slices.IndexFunc(e.set, func(x scored) bool { return x.member == member })
}

// zaddNX adds the member unless it is there.
func (s *store) zaddNX(key string, score float64, member string, now int64) error {
	e, err := s.findSet(key, now)
	if err != nil {
		return err
	}
	if e == nil {
		e = &entry{isSet: true}
		s.entries[key] = e
	}
	if e.rank(member) >= 0 {
		return nil
	}
	x := scored{member, score}
	at, _ := slices.BinarySearchFunc(e.set, x, compareScored)
	e.set = slices.Insert(e.set, at, x)
	return nil
}

// zadd moves a member that is there already.
func (s *store) zadd(key string, score float64, member string, now int64) error {
	e, err := s.findSet(key, now)
	if err != nil {
		return err
	}
	if e != nil {
		if at := e.rank(member); at >= 0 {
			e.set = slices.Delete(e.set, at, at+1)
		}
	}
	return s.zaddNX(key, score, member, now)
}

// zrank is -1 for a member that is not there.
func (s *store) zrank(key, member string, now int64) (int, error) {
	e, err := s.findSet(key, now)
	if e == nil {
		return -1, err
	}
	return e.rank(member), nil
}

func (s *store) zcard(key string, now int64) (int, error) {
	e, err := s.findSet(key, now)
	if e == nil {
		return 0, err
	}
	return len(e.set), nil
}

func (s *store) removeAt(key string, e *entry, at int) {
	e.set = slices.Delete(e.set, at, at+1)
	if len(e.set) == 0 {
		delete(s.entries, key)
	}
}

func (s *store) zpopmin(key string, now int64) (scored, bool, error) {
	e, err := s.findSet(key, now)
	if e == nil {
		return scored{}, false, err
	}
	first := e.set[0]
	s.removeAt(key, e, 0)
	return first, true, nil
}

func (s *store) zfirst(key string, now int64) (string, bool, error) {
	e, err := s.findSet(key, now)
	if e == nil {
		return "", false, err
	}
	return e.set[0].member, true, nil
}

func (s *store) zrem(key, member string, now int64) (bool, error) {
	e, err := s.findSet(key, now)
	if e == nil {
		return false, err
	}
	at := e.rank(member)
	if at < 0 {
		return false, nil
	}
	s.removeAt(key, e, at)
	return true, nil
}

// names returns the live keys in order, and drops the others.
func (s *store) names(now int64) []string {
	s.purge(now)
	return slices.Sorted(maps.Keys(s.entries))
}

// purge keeps a long run over many lock names from growing without end.
func (s *store) purge(now int64) {
	for key := range s.entries {
		s.find(key, now)
	}
}
