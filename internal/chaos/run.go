//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/quorumlock/redlock/internal/chaos/history"
)

// settings are those of a run.
type settings struct {
	length          time.Duration
	seed            uint64
	clients, nodes  int
	workers         int // of each client
	names           []string
	expiry          time.Duration
	guard           time.Duration // longest hold; 0: no guard
	pace            time.Duration // the longest time between two faults
	restartMajority bool
	clocks          bool   // clocks of nodes can be set, where the system lets us
	patient         bool   // wait for the queues of the dead to run out, half a minute
	filter          bool   // this process has a network namespace of its own
	dir             string // where the history is kept
}

// longest is the longest life of a grant.
func (s *settings) longest() time.Duration { return extendFactor*s.expiry + 100*time.Millisecond }

const (
	stopBound = 30 * time.Second // closing takes a client 10 s, the check for leaks 5
	slack     = 5 * time.Second  // for a machine that is busy with other things
	// mostPause is how long a name may go without a grant while a majority of the nodes
	// is well: its holder may have been killed, with a queue of the dead behind it.
	mostPause = time.Minute
	// In a run of that length somebody must have been granted every name.
	longEnough = 10 * time.Second
)

// result is what a run has come to.
type result struct {
	*history.Report
	wrong   []string // promises broken that no history shows
	failure error    // the run came to a bad end, through no fault of the library's
	history string   // file
}

func (r *result) violated() bool { return r.Violated() || len(r.wrong) > 0 }

// run makes one run. An error says that it could not be made, not that it went wrong.
func run(s settings, out io.Writer) (res *result, err error) {
	dir, err := os.MkdirTemp("", "redlock-chaos-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	stage := &stage{}
	defer func() { err = errors.Join(err, stage.close()) }()
	nodes, err := startNodes(stage, &s)
	if err != nil {
		return nil, err
	}
	w := &world{settings: s, nodes: nodes, dir: dir, out: out}
	if err := w.play(); err != nil {
		return nil, err
	}
	return w.judge()
}

// world is one run on servers that are there.
type world struct {
	settings
	nodes   []*node
	dir     string
	out     io.Writer
	members *members
	wrong   []string
	failure error
}

const ownLog = "nemesis.jsonl"

// play has the clients lock and the nemesis disturb them, and ends both.
func (w *world) play() (err error) {
	clock, err := newClock()
	if err != nil {
		return err
	}
	log, err := history.Create(filepath.Join(w.dir, ownLog))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	store, err := openStore(log, clock)
	if err != nil {
		return err
	}
	defer store.close()
	var packets *filter
	if w.filter {
		if packets, err = openFilter(); err != nil {
			return err
		}
	}
	net, err := connect(w.nodes, w.clients, packets)
	if err != nil {
		return err
	}
	defer net.close()
	if w.guard > 0 {
		if err := each(w.nodes, func(d *node) error { return d.introduce(w.names, w.guard) }); err != nil {
			return err
		}
	}
	w.members = &members{dir: w.dir, network: net, output: w.out, places: make([]*member, w.clients), orders: orders{
		Seed: w.seed, Names: w.names, Store: store.addr(), Workers: w.workers, Expiry: w.expiry, Guard: w.guard,
	}}
	defer w.members.abandon()
	for place := range w.clients {
		if err := w.members.start(place); err != nil {
			return err
		}
	}
	n := &nemesis{
		settings: w.settings, nodes: w.nodes, network: net, members: w.members, budget: newBudget(w.clients, len(w.nodes)),
		log: log, clock: clock, rng: rand.New(rand.NewPCG(w.seed, 1)), found: w.violated,
	}
	ctx, cancel := context.WithTimeout(context.Background(), w.length)
	defer cancel()
	n.giveUp = cancel
	n.run(ctx)
	// What was written down until then is judged all the same.
	w.failure = n.wait()
	w.wrong = append(w.wrong, w.members.stop(stopBound)...)
	if w.failure == nil && !w.restartMajority { // else nothing is promised
		w.lookAround()
	}
	return nil
}

// lookAround checks that the nodes are clean once all clients have gone.
func (w *world) lookAround() {
	left := make([][]string, len(w.nodes))
	_ = each(w.nodes, func(d *node) error { // f returns none
		for i := range w.nodes {
			if w.nodes[i] == d {
				left[i] = d.remains(w.names, w.longest(), slack, w.patient)
			}
		}
		return nil
	})
	for i, all := range left {
		for _, what := range all {
			w.wrong = append(w.wrong, fmt.Sprintf("left at node %d: %s", i, what))
		}
	}
}

func (w *world) events() ([]history.Event, error) {
	return history.Read(append(w.members.logs(), filepath.Join(w.dir, ownLog))...)
}

// violated looks at the history so far.
func (w *world) violated() (bool, error) {
	events, err := w.events()
	return err == nil && len(history.Check(events).Exclusion.Illegal) > 0, err
}

// judge checks the history, and keeps it.
func (w *world) judge() (*result, error) {
	events, err := w.events()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(w.settings.dir, 0o755); err != nil { // to be read by all
		return nil, err
	}
	path := filepath.Join(w.settings.dir, fmt.Sprintf("history-%d.jsonl", w.seed))
	if err := history.Save(path, events); err != nil {
		return nil, err
	}
	r := &result{Report: history.Check(events), wrong: w.wrong, failure: w.failure, history: path}
	granted := map[string]bool{}
	for _, e := range events {
		if e.Kind == history.Return && e.Token > 0 {
			granted[e.Name] = true
		}
	}
	for _, name := range w.names {
		if !granted[name] && w.length >= longEnough {
			r.wrong = append(r.wrong, "nobody was ever granted "+name)
		}
	}
	if r.Pause > mostPause {
		r.wrong = append(r.wrong, fmt.Sprintf("a name was not granted for %v", r.Pause))
	}
	return r, nil
}
