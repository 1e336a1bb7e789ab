package redlocktest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/redlock/pool"
	"github.com/quorumlock/redlock/redlocktest"
)

// A stopped process still takes requests, and executes them when it goes on.
func ExampleNode_Hang() {
	node := redlocktest.NewNode("node0")
	inspect := pool.NewScript("inspect", "") // a twin needs no source
	keys := []string{"lock", "lock:f", "lock:q"}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()

	node.Hang()
	_, err := node.Eval(ctx, inspect, keys)
	fmt.Println(errors.Is(err, context.DeadlineExceeded), node.Stats().Pending)

	node.Resume()
	fmt.Println(node.Stats().Pending, node.Stats().Executed["inspect"])
	// Output:
	// true 1
	// 0 1
}

// A lock held by a client of another library.
func ExampleNode_Set() {
	node := redlocktest.NewNode("node0")
	node.Set("lock", "held-by-another", 8*time.Second)
	got, err := node.Eval(context.Background(), pool.NewScript("inspect", ""), []string{"lock", "lock:f", "lock:q"})
	fmt.Println("held:", got[0] == 1, "error:", err)
	// Output: held: true error: <nil>
}
