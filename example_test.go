package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/redlocktest"
)

// newExample is redlock.New over nodes in memory; a program passes the pools of its
// Redis servers.
func newExample(opts ...redlock.Option) (r *redlock.Redlock, done func()) {
	r, err := redlock.New(redlocktest.NewNodes(3).Pools(), opts...)
	if err != nil {
		panic(err)
	}
	return r, func() { _ = r.Close(context.Background()) }
}

func ExampleNew() {
	nodes := redlocktest.NewNodes(5)
	r, err := redlock.New(nodes.Pools(),
		redlock.WithExpiry(30*time.Second),            // for how long a node keeps a lock
		redlock.WithTries(10),                         // instead of waiting until ctx ends
		redlock.WithNodeTimeout(500*time.Millisecond), // for one request to one node
		redlock.WithRestartGuard(time.Minute),         // the longest hold of any client
		redlock.WithGenValueFunc(func() (string, error) { return "host-7", nil }),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close(context.Background()) //nolint:errcheck // nothing is left behind here
	// A mutex may differ from the rest; what is wrong with it shows at the first use.
	err = r.NewMutex("invoices", redlock.WithExpiry(2*time.Minute)).Lock()
	fmt.Println(errors.Is(err, redlock.ErrInvalidOption))
	// Output: true
}

func ExampleMutex_Lock() {
	r, done := newExample()
	defer done()
	m := r.NewMutex("invoices")
	if err := m.Lock(); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("held:", m.Valid())
	ok, err := m.Unlock()
	fmt.Println("released:", ok, err)
	// Output:
	// held: true
	// released: true <nil>
}

// An Unlock tells whether the lock was held until then.
func ExampleMutex_Unlock() {
	r, done := newExample()
	defer done()
	_, err := r.NewMutex("invoices").Unlock()
	fmt.Println(errors.Is(err, redlock.ErrNotHeld))
	// Output: true
}

// Wait for a busy lock until a deadline, and learn who was in the way.
func ExampleMutex_LockContext() {
	r, done := newExample()
	defer done()
	holder := r.NewMutex("invoices")
	_ = holder.Lock()
	defer holder.Unlock() //nolint:errcheck // an example

	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	err := r.NewMutex("invoices").LockContext(ctx)
	fmt.Println("deadline:", errors.Is(err, context.DeadlineExceeded))
	var taken *redlock.TakenError
	if errors.As(err, &taken) {
		fmt.Println("taken by the holder:", taken.Token == holder.Token(), "for more than a second:", taken.TTL > time.Second)
	}
	// Output:
	// deadline: true
	// taken by the holder: true for more than a second: true
}

func ExampleMutex_TryLock() {
	r, done := newExample()
	defer done()
	a, b := r.NewMutex("invoices"), r.NewMutex("invoices")
	fmt.Println(a.TryLock())
	fmt.Println("taken:", errors.Is(b.TryLock(), redlock.ErrTaken))
	_, _ = a.Unlock()
	// Output:
	// <nil>
	// taken: true
}

func ExampleRedlock_Do() {
	r, done := newExample()
	defer done()
	err := r.Do(context.Background(), "invoices", func(ctx context.Context) error {
		_, ok := redlock.TokenFromContext(ctx)
		fmt.Println("a token to pass on:", ok)
		return ctx.Err() // ends before the lock is lost
	})
	fmt.Println(err)
	// Output:
	// a token to pass on: true
	// <nil>
}

// Hold is Do without the callback.
func ExampleMutex_Hold() {
	r, done := newExample()
	defer done()
	m := r.NewMutex("leader")
	held, err := m.Hold(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("at work:", held.Err() == nil)
	_, _ = m.Unlock() // in every case, also when held has ended
	<-held.Done()
	fmt.Println(context.Cause(held))
	// Output:
	// at work: true
	// context canceled
}

// A later grant has a higher token. The resource keeps the highest it has seen and
// refuses what comes with a lower one.
func ExampleMutex_Token() {
	r, done := newExample()
	defer done()
	m := r.NewMutex("invoices")
	var highest int64
	write := func(token int64) bool {
		if token < highest {
			return false
		}
		highest = token
		return true
	}
	_ = m.Lock()
	early := m.Token()
	_, _ = m.Unlock()
	_ = m.Lock()
	fmt.Println("current:", write(m.Token()))
	fmt.Println("stale:", write(early))
	_, _ = m.Unlock()
	// Output:
	// current: true
	// stale: false
}

func ExampleMutex_ExtendContext() {
	r, done := newExample()
	defer done()
	m := r.NewMutex("invoices", redlock.WithExpiry(time.Minute))
	_ = m.Lock()
	defer m.Unlock() //nolint:errcheck // an example
	before := m.Until()
	time.Sleep(time.Millisecond) // work
	ok, err := m.ExtendContext(context.Background())
	fmt.Println(ok, err, m.Until().After(before))
	// Output: true <nil> true
}

// All names or none.
func ExampleRedlock_NewMultiMutex() {
	r, done := newExample()
	defer done()
	transfer := r.NewMultiMutex([]string{"account 2", "account 1"})
	_ = transfer.Lock()
	fmt.Println("taken:", errors.Is(r.NewMutex("account 1").TryLock(), redlock.ErrTaken))
	_, _ = transfer.Unlock()
	one := r.NewMutex("account 1")
	_ = one.Lock()
	fmt.Println("taken:", errors.Is(transfer.TryLock(), redlock.ErrTaken))
	_, _ = one.Unlock()
	// Output:
	// taken: true
	// taken: true
}

// A lock that one process holds is handed to another by its value. The giver does not
// unlock it, and does not hold it with Hold or Do: they would go on renewing it.
func ExampleWithValue() {
	r, done := newExample()
	defer done()
	giver := r.NewMutex("upload")
	_ = giver.Lock()
	message := giver.Value() // to the other process

	taker := r.NewMutex("upload", redlock.WithValue(message))
	ok, err := taker.Extend()
	fmt.Println("extended:", ok, err, "token as before:", taker.Token() == giver.Token())
	ok, err = taker.Unlock()
	fmt.Println("released:", ok, err)
	// Output:
	// extended: true <nil> token as before: true
	// released: true <nil>
}

func ExampleRedlock_Inspect() {
	r, done := newExample()
	defer done()
	m := r.NewMutex("invoices")
	_ = m.Lock()
	defer m.Unlock() //nolint:errcheck // an example
	s, err := r.Inspect(context.Background(), "invoices")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("held:", s.Held, "by us:", s.Value == m.Value() && s.Token == m.Token(), "waiters:", s.Waiters)
	fmt.Println("asked:", len(s.Nodes), s.Nodes[0].Addr)
	// Output:
	// held: true by us: true waiters: 0
	// asked: 3 node0
}

// A holder that does not come back is put out; its token keeps it out of the resource
// until it notices.
func ExampleRedlock_Break() {
	r, done := newExample()
	defer done()
	gone := r.NewMutex("invoices", redlock.WithExpiry(time.Hour))
	_ = gone.Lock()
	fmt.Println(r.Break(context.Background(), "invoices"))
	next := r.NewMutex("invoices")
	fmt.Println(next.TryLock(), next.Token() > gone.Token())
	_, err := gone.Extend()
	fmt.Println("extend refused:", errors.Is(err, redlock.ErrExtendFailed))
	_, _ = next.Unlock()
	// Output:
	// <nil>
	// <nil> true
	// extend refused: true
}
