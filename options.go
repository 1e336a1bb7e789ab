package redlock

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"log/slog"
	mrand "math/rand/v2"
	"time"
)

// DelayFunc is the pause after try number tries (from 1) of an acquire has failed.
type DelayFunc func(tries int) time.Duration

// GenValueFunc makes the first part of a lock's value. It need not be unique:
// each attempt adds a nonce of its own.
type GenValueFunc func() (string, error)

// Option sets a property of one mutex, or, given to New, the default of all.
type Option interface{ apply(*config) }

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

// Defaults.
const (
	defaultExpiry        = 8 * time.Second
	defaultDriftFactor   = 0.01
	defaultTimeoutFactor = 0.05
	minRetryDelay        = 50 * time.Millisecond
	maxRetryDelay        = 250 * time.Millisecond
)

// longestLife bounds what a node is told to keep, so that no sum of lives overflows.
const longestLife = 100 * 365 * 24 * time.Hour

// config is a set of options with its first error.
type config struct {
	expiry        time.Duration
	tries         int // 0: as many as ctx allows
	delay         DelayFunc
	driftFactor   float64
	timeoutFactor float64
	nodeTimeout   time.Duration // 0: from expiry and timeoutFactor
	genValue      GenValueFunc  // nil: random
	value         string
	reentry       bool
	maxHold       time.Duration
	guard         time.Duration
	observer      Observer
	logger        *slog.Logger
	err           error
}

// settings are the options of a factory or a mutex and what follows from them.
type settings struct {
	config
	eyes eyes

	// Arguments of scripts.
	expiryArg, fenceArg, guardArg any
}

func newSettings(c config) *settings {
	return &settings{
		config: c, eyes: newEyes(c.observer, c.logger),
		expiryArg: milliseconds(c.expiry), fenceArg: milliseconds(c.expiry + retention), guardArg: milliseconds(c.guard),
	}
}

func defaultConfig() config {
	return config{
		expiry:        defaultExpiry,
		delay:         randomDelay,
		driftFactor:   defaultDriftFactor,
		timeoutFactor: defaultTimeoutFactor,
	}
}

func (c config) with(opts []Option) config {
	for _, o := range opts {
		if o == nil {
			c.invalid("nil option", nil, "must not be nil")
			continue
		}
		o.apply(&c)
	}
	c.check()
	return c
}

func (c *config) invalid(option string, value any, why string) {
	if c.err == nil {
		c.err = &OptionError{option, value, why}
	}
}

// check looks at what no option can see alone.
func (c *config) check() {
	if c.expiry <= drift(c.expiry, c.driftFactor) {
		c.invalid("WithExpiry", c.expiry, fmt.Sprintf("leaves no validity after a drift of %v", drift(c.expiry, c.driftFactor)))
	}
	if c.expiry > longestLife {
		c.invalid("WithExpiry", c.expiry, fmt.Sprintf("must be at most %v", longestLife))
	}
	if c.nodeTimeout > 0 && c.nodeTimeout >= c.expiry {
		c.invalid("WithNodeTimeout", c.nodeTimeout, fmt.Sprintf("must be less than the expiry of %v", c.expiry))
	}
	if c.guard > 0 && c.expiry > c.guard {
		c.invalid("WithExpiry", c.expiry, fmt.Sprintf("is above the longest hold that WithRestartGuard(%v) allows", c.guard))
	}
	if c.reentry && c.value == "" {
		c.invalid("WithReentry", "", "needs WithValue")
	}
}

// timeout is how long one request to one node may take: a fraction of the
// expiry, but no less than 250 ms (or a quarter of a short expiry) and no more
// than 2 s.
func (c *config) timeout() time.Duration {
	if c.nodeTimeout > 0 {
		return c.nodeTimeout
	}
	floor := min(250*time.Millisecond, c.expiry/4)
	return min(max(time.Duration(float64(c.expiry)*c.timeoutFactor), floor), 2*time.Second)
}

// demands are the options by which a mutex finds a quorum or does not.
type demands struct {
	expiry, timeout, guard time.Duration
	driftFactor            float64
}

func (c *config) demands() demands {
	return demands{expiry: c.expiry, timeout: c.timeout(), guard: c.guard, driftFactor: c.driftFactor}
}

// WithExpiry sets how long a node keeps the lock without an extend, in whole
// milliseconds up to 100 years, by default 8 s. What may be relied on is the validity,
// which is shorter by the drift and by the time that acquiring took.
func WithExpiry(d time.Duration) Option {
	return optionFunc(func(c *config) {
		// Nodes count in milliseconds, and the ledger must not count on more.
		c.expiry = d.Truncate(time.Millisecond)
		if d < time.Millisecond {
			c.invalid("WithExpiry", d, "must be at least 1ms")
		}
	})
}

// WithTries limits an acquire to n attempts. Without it a busy lock is waited
// for until ctx ends, a lack of reachable nodes fails after three attempts, and a
// fault that needs mending (password, rights, replica) fails at once.
func WithTries(n int) Option {
	return optionFunc(func(c *config) {
		c.tries = n
		if n < 1 {
			c.invalid("WithTries", n, "must be at least 1")
		}
	})
}

// WithRetryDelay sets a fixed pause between attempts.
func WithRetryDelay(d time.Duration) Option {
	return optionFunc(func(c *config) {
		c.delay = func(int) time.Duration { return d }
		if d < 0 {
			c.invalid("WithRetryDelay", d, "must not be negative")
		}
	})
}

// WithRetryDelayFunc sets the longest pause before each try; by default random
// between 50 and 250 ms. A pause ends early when the lock may have become free.
func WithRetryDelayFunc(f DelayFunc) Option {
	return optionFunc(func(c *config) {
		c.delay = f
		if f == nil {
			c.invalid("WithRetryDelayFunc", nil, "must not be nil")
		}
	})
}

// WithDriftFactor sets by what fraction of the expiry clocks may drift apart,
// from 0 to below 1; by default 0.01. 2 ms are always added.
func WithDriftFactor(f float64) Option {
	return optionFunc(func(c *config) {
		c.driftFactor = f
		if !(f >= 0 && f < 1) {
			c.invalid("WithDriftFactor", f, "must be at least 0 and below 1")
			c.driftFactor = defaultDriftFactor
		}
	})
}

// WithTimeoutFactor sets the time for one request to one node as a fraction of
// the expiry, above 0 and below 1; by default 0.05. The result is kept between
// 250 ms (or a quarter of the expiry, if that is less) and 2 s.
func WithTimeoutFactor(f float64) Option {
	return optionFunc(func(c *config) {
		c.timeoutFactor = f
		if !(f > 0 && f < 1) {
			c.invalid("WithTimeoutFactor", f, "must be above 0 and below 1")
			c.timeoutFactor = defaultTimeoutFactor
		}
	})
}

// WithNodeTimeout sets the time for one request to one node directly, in place
// of WithTimeoutFactor.
func WithNodeTimeout(d time.Duration) Option {
	return optionFunc(func(c *config) {
		c.nodeTimeout = d
		if d <= 0 {
			c.invalid("WithNodeTimeout", d, "must be above 0")
		}
	})
}

// WithGenValueFunc sets what the values of this lock start with, for people who
// read them on a node: a host name, a job. By default 16 random bytes.
func WithGenValueFunc(f GenValueFunc) Option {
	return optionFunc(func(c *config) {
		c.genValue = f
		if f == nil {
			c.invalid("WithGenValueFunc", nil, "must not be nil")
		}
	})
}

// WithValue adopts a lock that was acquired elsewhere: v is what Mutex.Value
// returned there. Unlock and Extend then work without a Lock.
func WithValue(v string) Option {
	return optionFunc(func(c *config) {
		c.value = v
		if v == "" {
			c.invalid("WithValue", `""`, "must not be empty")
		}
	})
}

// WithReentry lets Lock succeed where the lock is already held with the value of
// WithValue, by another process or Mutex; on one and the same Mutex a second Lock
// waits for the first as ever. The grant is refreshed and its token grows.
func WithReentry() Option {
	return optionFunc(func(c *config) { c.reentry = true })
}

// WithMaxHold limits how long Hold and Do keep renewing. The held context ends
// then, with cause ErrLost. By default there is no limit.
func WithMaxHold(d time.Duration) Option {
	return optionFunc(func(c *config) {
		c.maxHold = d
		if d <= 0 {
			c.invalid("WithMaxHold", d, "must be above 0")
		}
	})
}

// WithRestartGuard keeps a node that was restarted from voting until every grant
// it may have forgotten is over. longest is the longest hold of the whole fleet:
// no expiry and no ExtendFor may exceed it; at least 10.001 s. The node votes again
// that long after its restart, or up to 2 s later, for it tells its uptime in seconds
// begun.
// Every client of a name must use the same guard, or it protects nobody.
func WithRestartGuard(longest time.Duration) Option {
	return optionFunc(func(c *config) {
		c.guard = longest
		// Below that the node may have forgotten its fences, too.
		if least := 2*skewBound + time.Millisecond; longest < least {
			c.invalid("WithRestartGuard", longest, fmt.Sprintf("must be at least %v", least))
		}
		if longest > longestLife {
			c.invalid("WithRestartGuard", longest, fmt.Sprintf("must be at most %v", longestLife))
		}
	})
}

// WithObserver has o told of what happens; see Observer.
func WithObserver(o Observer) Option {
	return optionFunc(func(c *config) { c.observer = o })
}

// WithLogger logs what an operator wants to know: lost locks, degraded quorums,
// clean-ups that failed. No values and no passwords. By default nothing is logged.
func WithLogger(l *slog.Logger) Option {
	return optionFunc(func(c *config) { c.logger = l })
}

func randomDelay(int) time.Duration {
	return minRetryDelay + mrand.N(maxRetryDelay-minRetryDelay)
}

func randomText(bytes int) string {
	var text [64]byte
	return string(appendRandom(text[:0], bytes))
}

// appendRandom appends that many random bytes as text.
func appendRandom(to []byte, bytes int) []byte {
	var random [32]byte
	rand.Read(random[:bytes]) // crypto/rand.Read never fails (Go 1.24)
	return base64.RawURLEncoding.AppendEncode(to, random[:bytes])
}
