// Package demo has several clients contend for one lock on five nodes, while some
// of the nodes fail and the network splits, and checks every grant with a witness
// that knows nothing of the library.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/pool"
)

const (
	nodeCount        = 5
	clientCount      = 4
	workersPerClient = 2
	lockName         = "demo"
)

// MinDuration leaves room for every fault, and for a killed node to stay away for
// an expiry.
const MinDuration = 2 * time.Second

// Config says what to run.
type Config struct {
	Duration time.Duration
	Servers  bool // redis-server processes in place of nodes in memory
	View     View
	Page     io.Writer // gets an HTML page of the run; nil: none
}

// View is told how the run goes, from one goroutine.
type View interface {
	Event(at time.Duration, text string)
	Progress(Snapshot)
	Done()
}

// Snapshot is one moment of a run.
type Snapshot struct {
	Elapsed, Duration time.Duration
	Nodes             []string // what each is doing
	Split             bool     // no client reaches all nodes
	Holder            string   // "" when the lock is free
	Report            Report
}

// run is one run and everything it owns.
type run struct {
	cluster cluster
	clients []*client
	witness witness
	waits   histogram
	tally   tally
	board   board
	started time.Time

	timeline *timeline
}

// client is one process, so to speak: a Redlock with its own way to each node.
type client struct {
	locks *redlock.Redlock
	links []*link
	tally tally
}

// Run runs the demo until its time is over or ctx ends. The report is complete in
// either case; an error means that there was no run.
func Run(ctx context.Context, c Config) (report Report, err error) {
	expiry := expiryFor(c.Duration)
	r := &run{}
	if r.cluster, err = newCluster(c.Servers); err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, r.cluster.close()) }()
	for range clientCount {
		cl, err := r.newClient(expiry)
		if err != nil {
			return Report{}, err
		}
		r.clients = append(r.clients, cl)
	}
	r.board.reset()
	r.started = time.Now()
	if c.Page != nil {
		r.timeline = newTimeline()
	}

	ctx, cancel := context.WithTimeout(ctx, c.Duration)
	defer cancel()
	var workers sync.WaitGroup
	for i := range clientCount * workersPerClient {
		workers.Go(func() { r.work(ctx, i) })
	}
	failed := make(chan error, 1)
	go func() {
		failed <- r.breakThings(ctx, c.Duration, expiry)
		close(failed)
	}()
	r.show(ctx, c)
	workers.Wait()
	err = <-failed
	elapsed := time.Since(r.started)
	r.close()
	c.View.Done()
	report = r.report(elapsed)
	if c.Page != nil {
		err = errors.Join(err, r.timeline.write(c.Page, report))
	}
	return report, err
}

func (r *run) newClient(expiry time.Duration) (*client, error) {
	c := &client{}
	pools := make([]pool.Pool, nodeCount)
	for i := range pools {
		l := newLink(r.cluster.pool(i))
		c.links = append(c.links, l)
		pools[i] = l
	}
	var err error
	c.locks, err = redlock.New(pools, redlock.WithExpiry(expiry))
	return c, err
}

// show follows the run until ctx ends.
func (r *run) show(ctx context.Context, c Config) {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case e := <-r.board.events:
			c.View.Event(e.at, e.text)
		case <-ticker.C:
			c.View.Progress(r.snapshot(c.Duration))
		case <-ctx.Done():
			c.View.Progress(r.snapshot(c.Duration))
			return
		}
	}
}

func (r *run) snapshot(duration time.Duration) Snapshot {
	elapsed := time.Since(r.started)
	nodes, split := r.board.read()
	return Snapshot{
		Elapsed: elapsed, Duration: duration, Nodes: nodes, Split: split,
		Holder: r.witness.holder(), Report: r.report(elapsed),
	}
}

// close lets the clients finish what is on its way.
func (r *run) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var all sync.WaitGroup
	for _, c := range r.clients {
		all.Go(func() { _ = c.locks.Close(ctx) }) // what is left expires with the nodes
	}
	all.Wait()
}

func workerName(i int) string {
	return fmt.Sprintf("client %d, worker %d", i/workersPerClient+1, i%workersPerClient+1)
}
