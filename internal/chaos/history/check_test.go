package history

import (
	"bytes"
	"path/filepath"
	"slices"
	"testing"
	"testing/quick"

	"github.com/stretchr/testify/require"
)

// script writes histories by hand. Its clock ticks with every event.
type script struct {
	now    int64
	calls  int64
	events []Event
}

func (s *script) add(e Event) int64 {
	s.now++
	e.At = s.now
	s.events = append(s.events, e)
	return e.At
}

// invoke starts a call and returns the end of it.
func (s *script) invoke(e Event) func(result string, until int64) {
	s.calls++
	e.Call, e.Kind = s.calls, Invoke
	s.add(Event{Client: e.Client, Call: e.Call, Kind: Invoke, Verb: e.Verb, Name: e.Name, Token: e.Token, Until: e.Until})
	return func(result string, until int64) {
		e.Kind, e.Result, e.Until = Return, result, until
		if result != OK && acquiring[e.Verb] {
			e.Token = 0
		}
		s.add(e)
	}
}

// lock is a whole call that is granted until then.
func (s *script) lock(client int, token, until int64) {
	s.invoke(Event{Client: client, Verb: "lock", Name: "a", Token: token})(OK, until)
}

func (s *script) unlock(client int, token int64) {
	s.invoke(Event{Client: client, Verb: "unlock", Name: "a", Token: token})(OK, 0)
}

func (s *script) told(client int, token int64, what string, until int64) {
	s.add(Event{Client: client, Kind: Told, Name: "a", Token: token, Result: what, Until: until})
}

func (s *script) stored(token int64, result string) {
	s.add(Event{Kind: Store, Name: "a", Token: token, Result: result})
}

func TestLegalHistories(t *testing.T) {
	for name, write := range map[string]func(*script){
		"nothing": func(*script) {},
		"one after the other": func(s *script) {
			s.lock(1, 10, 100)
			s.unlock(1, 10)
			s.lock(2, 11, 100)
			s.unlock(2, 11)
		},
		"granted while the unlock is on its way": func(s *script) {
			s.lock(1, 10, 100)
			unlocked := s.invoke(Event{Client: 1, Verb: "unlock", Name: "a", Token: 10})
			s.lock(2, 11, 100)
			unlocked(OK, 0)
		},
		"a waiter that called before the holder did": func(s *script) {
			granted := s.invoke(Event{Client: 2, Verb: "lock", Name: "a", Token: 11})
			s.lock(1, 10, 100)
			s.unlock(1, 10)
			granted(OK, 100)
		},
		"the holder is suspended beyond its validity": func(s *script) {
			s.lock(1, 10, 4)
			s.now = 5
			s.lock(2, 11, 100)
			s.stored(11, Accepted)
			s.stored(10, Refused)
			s.unlock(1, 10)
		},
		"the holder died": func(s *script) {
			s.lock(1, 10, 4)
			s.now = 5
			s.lock(2, 11, 100)
		},
		"the holder was told of its loss": func(s *script) {
			s.lock(1, 10, 100)
			s.told(1, 10, Lost, 0)
			s.lock(2, 11, 100)
		},
		"granted too late to be worth anything": func(s *script) {
			granted := s.invoke(Event{Client: 1, Verb: "lock", Name: "a", Token: 10})
			s.lock(2, 11, 100)
			granted(OK, 0)
		},
		"a call without return may have had the lock": func(s *script) {
			s.invoke(Event{Client: 1, Verb: "lock", Name: "a", Token: 10})
			s.lock(2, 11, 100)
		},
		"attempts at once, the later one wins the higher token": func(s *script) {
			first := s.invoke(Event{Client: 1, Verb: "lock", Name: "a", Token: 11})
			s.lock(2, 10, 100)
			s.unlock(2, 10)
			first(OK, 100)
		},
		"other names": func(s *script) {
			s.lock(1, 10, 100)
			s.invoke(Event{Client: 2, Verb: "try", Name: "b", Token: 3})(OK, 100)
		},
		"the failures of others": func(s *script) {
			s.lock(1, 10, 100)
			s.invoke(Event{Client: 2, Verb: "try", Name: "a"})("taken", 0)
			s.unlock(1, 10)
		},
		"a stale write before anybody else wrote": func(s *script) {
			s.lock(1, 10, 4)
			s.now = 5
			s.lock(2, 11, 100)
			s.stored(10, Accepted)
			s.stored(11, Accepted)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{}
			write(s)
			r := Check(s.events)
			require.False(t, r.Violated(), "%+v", r)
			require.False(t, r.Undecided())
		})
	}
}

func TestIllegalHistories(t *testing.T) {
	type verdict struct{ exclusion, tokens, fence bool }
	for name, c := range map[string]struct {
		write   func(*script)
		illegal verdict
	}{
		"two holders": {func(s *script) {
			s.lock(1, 10, 100)
			s.lock(2, 11, 100)
		}, verdict{exclusion: true}},
		"two holders, of whom one has extended": {func(s *script) {
			s.lock(1, 10, 4)
			s.invoke(Event{Client: 1, Verb: "extend", Name: "a", Token: 10})(OK, 100)
			s.lock(2, 11, 100)
		}, verdict{exclusion: true}},
		"two holders, of whom one has renewed": {func(s *script) {
			s.lock(1, 10, 4)
			s.told(1, 10, Valid, 100)
			s.lock(2, 11, 100)
		}, verdict{exclusion: true}},
		"two holders, one dead": {func(s *script) {
			s.lock(1, 10, 6)
			s.now = 3
			s.lock(2, 11, 100)
		}, verdict{exclusion: true}},
		"a waiter that called first was let in": {func(s *script) {
			granted := s.invoke(Event{Client: 2, Verb: "lock", Name: "a", Token: 11})
			s.lock(1, 10, 100)
			granted(OK, 100)
			s.unlock(1, 10)
			s.unlock(2, 11)
		}, verdict{exclusion: true}},
		"told of the loss too late": {func(s *script) {
			s.lock(1, 10, 100)
			s.lock(2, 11, 100)
			s.told(1, 10, Lost, 0)
		}, verdict{exclusion: true}},
		"a token that is lower": {func(s *script) {
			s.lock(1, 10, 100)
			s.unlock(1, 10)
			s.lock(2, 9, 100)
		}, verdict{tokens: true, fence: true}},
		"the same token twice": {func(s *script) {
			s.lock(1, 10, 100)
			s.unlock(1, 10)
			s.lock(2, 10, 100)
		}, verdict{tokens: true, fence: true}},
		"a stale write was accepted": {func(s *script) {
			s.lock(1, 10, 4)
			s.now = 5
			s.lock(2, 11, 100)
			s.stored(11, Accepted)
			s.stored(10, Accepted)
		}, verdict{fence: true}},
		"a write with a token that nobody had": {func(s *script) {
			s.lock(1, 10, 100)
			s.stored(12, Accepted)
		}, verdict{fence: true}},
		"a good write was refused": {func(s *script) {
			s.lock(1, 10, 100)
			s.stored(10, Refused)
		}, verdict{fence: true}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{}
			c.write(s)
			r := Check(s.events)
			require.True(t, r.Violated())
			require.Equal(t, c.illegal, verdict{
				len(r.Exclusion.Illegal) > 0, len(r.Tokens.Illegal) > 0, len(r.Fence.Illegal) > 0,
			}, "%+v", r)
			if c.illegal.exclusion {
				require.NotEmpty(t, r.Overlaps, "counted as well")
			}
			if c.illegal.tokens {
				require.NotEmpty(t, r.Disorder)
			}
		})
	}
}

// What clients see broken themselves counts as well.
func TestWhatClientsSeeCounts(t *testing.T) {
	s := &script{}
	s.add(Event{Client: 1, Kind: Breach, Result: "a held context outlives its lock"})
	require.True(t, Check(s.events).Violated())

	s = &script{}
	s.lock(1, 10, 100)
	s.invoke(Event{Client: 1, Verb: "write", Name: "a", Token: 10, Until: 100})(Refused, 100)
	require.Len(t, Check(s.events).Stale, 1)
	s.invoke(Event{Client: 1, Verb: "write", Name: "a", Token: 10, Until: 6})(Refused, 6)
	require.Len(t, Check(s.events).Stale, 1, "its validity was over by the answer")
}

// The two ways of finding holders at once, by search and by counting, agree. (Only the
// search sees a grant that had run out when its call returned.)
func TestSearchAndCountAgree(t *testing.T) {
	agree := func(moves []uint8) bool {
		s := &script{}
		var held []int64
		for i, move := range moves[:min(len(moves), 60)] {
			token := int64(i + 1)
			switch {
			case move%3 > 0 && len(held) > 0:
				s.unlock(1, held[0])
				held = held[1:]
			case move%32 == 0 || len(held) == 0: // seldom while it is held
				s.lock(1, token, s.now+3+int64(move/8))
				held = append(held, token)
			}
		}
		r := Check(s.events)
		return len(r.Exclusion.Illegal) > 0 == (len(r.Overlaps) > 0)
	}
	require.NoError(t, quick.Check(agree, &quick.Config{MaxCount: 500}))
}

func TestHistoriesAreKept(t *testing.T) {
	dir := t.TempDir()
	s := &script{}
	s.lock(1, 10, 100)
	s.unlock(1, 10)
	path := filepath.Join(dir, "first")
	l, err := Create(path)
	require.NoError(t, err)
	for _, e := range slices.Backward(s.events) {
		l.Add(e)
	}
	require.NoError(t, l.Close())
	l.Add(s.events[0])
	require.Error(t, l.Close(), "it was not written")

	got, err := Read(path)
	require.NoError(t, err)
	require.Equal(t, s.events, got, "in the order of time")
	again := filepath.Join(dir, "second")
	require.NoError(t, Save(again, got[:2]))
	got, err = Read(again, path)
	require.NoError(t, err)
	require.Len(t, got, 6)
}

func TestReportIsPrinted(t *testing.T) {
	s := &script{}
	s.lock(1, 10, 100)
	s.lock(2, 11, 100)
	s.invoke(Event{Client: 3, Verb: "hold", Name: "a"})
	var out bytes.Buffer
	Check(s.events).Print(&out)
	for _, line := range []string{
		"lock     ok 2,\n", "hold     no return 1,\n", "checker  exclusion ILLEGAL: [a]; tokens legal; fence legal\n",
		"counted  two holders at once: 1\n", "a of client 1: token 10, called 1, granted 2, over 100, and a of client 2",
	} {
		require.Contains(t, out.String(), line)
	}
}
