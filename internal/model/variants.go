package model

// Variant is a change to the protocol that is known to break it.
type Variant uint8

// The known bad variants. Each is what somebody would do who did not know better.
const (
	AsWritten         Variant = iota
	ReleaseOfToken            // release carries the grant's ballot, not the highest sent
	ReleaseBound              // release raises the fence up to now + S only
	ShortRetention            // fences are kept for 2S
	TopUpAnyBallot            // a missing key comes back without q > c
	TopUpEqual                // a missing key comes back where c == p
	CountQuarantined          // extends count at nodes in quarantine
	NonTerminal               // a ledger that lapsed goes on
	PlainExpire               // an extend sets the life, be it shorter
	ReleaseKeepsFence         // release deletes and does not raise the fence
	SetIfMissing              // an extend sets the key wherever it is missing
	NoGuard                   // nodes forget, and vote at once
	NoTombstone               // break deletes, and no more
	ShortQuarantine           // T is below 2S + 1: see Config.Hold
	CountRestored             // a key that came back counts in quarantine, if a fence was there
	StoneByName               // a tombstone names one grant, and the next break writes over it
	ShortStone                // a tombstone lives as long as the break takes
)

// Hunt is an exploration that must find a violation.
type Hunt struct {
	Name string
	Config
}

// Openings.
var (
	// A is granted, by node 0 and a tick later by node 1.
	begun = []action{{kind: actPropose}, {kind: actAcquireRuns}, {kind: actTick}, {kind: actAcquireRuns, node: 1}}
	// B tries as well, and A sends an extend.
	extended = append(begun[:4:4],
		action{kind: actAcquireRuns}, action{kind: actPropose, client: 1}, action{kind: actTick}, action{kind: actExtend})
	// B gives up, C has the yes of node 2, and node 2 forgets it.
	emptied = append(extended[:8:8],
		action{kind: actTouchRuns}, action{kind: actGiveUp, client: 1}, action{kind: actPropose, client: 2},
		action{kind: actAcquireRuns, client: 2, node: 2}, action{kind: actRestart, node: 2})
)

// Hunts are the known bad variants, each within the least bounds that show it.
func Hunts() []Hunt {
	small := Config{Clients: 2, Expiry: 2, Skew: 1}
	with := func(v Variant, change func(*Config)) Config {
		c := small
		c.Variant = v
		change(&c)
		return c
	}
	nothing := func(*Config) {}
	extend := func(c *Config) { c.Extends = 1 }
	return []Hunt{
		{"release carries the grant's ballot alone", with(ReleaseOfToken, extend)},
		{"release raises the fence up to now + S only", with(ReleaseBound, func(c *Config) { c.Ahead = 1 })},
		{"fences are kept for 2S", with(ShortRetention, func(c *Config) { c.Ahead = 1 })},
		{"top-up without q > c", with(TopUpAnyBallot, extend)},
		{"top-up where c == p", with(TopUpEqual, extend)},
		{"extends count at quarantined nodes", with(CountQuarantined, func(c *Config) {
			c.Extends, c.Restarts, c.Guard, c.Narrow, c.Opening = 1, 1, true, true, begun
		})},
		{"expiry is not terminal", with(NonTerminal, func(c *Config) { c.Extends, c.Losses = 1, true })},
		{"extend shortens a life", with(PlainExpire, func(c *Config) { c.Extends, c.Lives = 1, []int8{1, 2} })},
		{"release does not raise the fence", with(ReleaseKeepsFence, nothing)},
		{"extend sets a missing key, whatever the fence", with(SetIfMissing, extend)},
		{"a node restarts without the guard", with(NoGuard, func(c *Config) { c.Restarts = 1 })},
		{"break leaves no tombstone", with(NoTombstone, func(c *Config) { c.Extends, c.Breaks = 1, 1 })},
		{"quarantine is shorter than 2S + 1", with(ShortQuarantine, func(c *Config) {
			c.Restarts, c.Guard, c.Hold = 1, true, 2
		})},
		{"a fence that a waiter left lets an extend count in quarantine", with(CountRestored, func(c *Config) {
			c.Clients, c.Extends, c.Restarts, c.Guard, c.Narrow, c.Opening = 3, 1, 1, true, true, emptied
		})},
		{"the next break writes over a tombstone", with(StoneByName, func(c *Config) {
			c.Extends, c.Breaks, c.Narrow, c.Opening = 1, 2, true, extended
		})},
		{"a tombstone lives for one tick", with(ShortStone, func(c *Config) {
			c.Extends, c.Breaks, c.Narrow, c.Opening = 1, 1, true, begun
		})},
		{"a node restarts with old keys, without the guard", with(NoGuard, func(c *Config) {
			c.Restarts, c.Saves, c.Narrow = 1, 1, true
		})},
	}
}

// Bound is an exploration of the protocol as written.
type Bound struct {
	Name string
	Config
}

// Small are the bounds for every run of the tests.
func Small() []Bound {
	two := Config{Clients: 2, Expiry: 2, Skew: 1}
	return []Bound{
		{"two clients", two.and(func(c *Config) { c.Narrow = true })},
		{"an extend, begun", two.and(func(c *Config) { c.Extends, c.MaxStates = 1, 20_000 })},
		{"one clock ahead, begun", two.and(func(c *Config) {
			c.Ahead, c.Reproposals, c.Extends, c.MaxStates = 1, 1, 1, 20_000
		})},
		{"every loss, begun", two.and(func(c *Config) { c.Extends, c.Losses, c.MaxStates = 1, true, 10_000 })},
		{"a restart under the guard, begun", two.and(func(c *Config) {
			c.Extends, c.Restarts, c.Guard, c.MaxStates = 1, 1, true, 10_000
		})},
		{"a waiter leaves a fence where all was forgotten, begun", two.and(func(c *Config) {
			c.Clients, c.Restarts, c.Guard, c.Extends, c.Narrow, c.Opening, c.MaxStates = 3, 1, true, 1, true, emptied, 10_000
		})},
		{"a break, begun", two.and(func(c *Config) { c.Breaks, c.Extends, c.MaxStates = 1, 1, 10_000 })},
	}
}

// Large are the bounds for make model: together some minutes.
func Large() []Bound {
	two := Config{Clients: 2, Expiry: 2, Skew: 1}
	three := Config{Clients: 3, Expiry: 2, Skew: 1}
	return []Bound{
		{"one clock ahead: a re-proposal and an extend", two.and(func(c *Config) {
			c.Ahead, c.Reproposals, c.Extends = 1, 1, 1
		})},
		{"a restart under the guard, an extend", two.and(func(c *Config) {
			c.Restarts, c.Guard, c.Extends = 1, true, 1
		})},
		{"one clock ahead: two extends", two.and(func(c *Config) { c.Ahead, c.Extends = 1, 2 })},
		{"a break and an extend", two.and(func(c *Config) { c.Breaks, c.Extends, c.MaxStates = 1, 1, 800_000 })},
		{"two breaks and an extend", two.and(func(c *Config) {
			c.Breaks, c.Extends, c.Narrow, c.Opening, c.MaxStates = 2, 1, true, extended, 1_000_000
		})},
		{"a waiter leaves a fence where all was forgotten", three.and(func(c *Config) {
			c.Restarts, c.Guard, c.Extends, c.Narrow, c.Opening = 1, true, 1, true, emptied
		})},
		{"a restart with old keys under the guard, an extend", two.and(func(c *Config) {
			c.Restarts, c.Saves, c.Guard, c.Extends, c.Narrow = 1, 1, true, 1, true
		})},
		{"three clients, an extend", three.and(func(c *Config) { c.Extends, c.Narrow = 1, true })},
		{"three clients", three},
		{"two extends, of two lives", two.and(func(c *Config) { c.Extends, c.Lives = 2, []int8{1, 2} })},
		{"one clock ahead: late yeses, an extend", two.and(func(c *Config) {
			c.Ahead, c.Extends, c.LateYes = 1, 1, true
		})},
		{"two restarts under the guard", two.and(func(c *Config) {
			c.Restarts, c.Guard, c.Extends, c.Narrow, c.MaxStates = 2, true, 1, true, 800_000
		})},
		{"every loss: a re-proposal and an extend", two.and(func(c *Config) {
			c.Reproposals, c.Extends, c.Losses, c.Narrow = 1, 1, true, true
		})},
		{"S of two ticks, one clock ahead", two.and(func(c *Config) {
			c.Skew, c.Ahead, c.Expiry, c.MaxStates = 2, 2, 3, 500_000
		})},
	}
}

func (c Config) and(change func(*Config)) Config {
	change(&c)
	return c
}
