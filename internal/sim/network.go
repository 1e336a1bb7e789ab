package sim

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/pool"
	"github.com/quorumlock/redlock/redlocktest"
)

// A run is the same twice if no two things happen at the same instant that depend on
// their order. So the last digits of every moment tell what happens in it: time is cut
// into slices, and in each slice each source of events has an instant of its own.
const slice = 4096 // ns

// Instants within a slice.
const (
	// Requests arrive at arrival + lane and leave replies at arrival + lane + returning +
	// 2 * lane, if they ran when they arrived.
	arrival     = 0
	returning   = 1000
	notices     = 3000
	sleeps      = 3300
	contexts    = 3320
	retries     = 3340
	woken       = 3360
	givingUp    = 3400
	disturbance = 3999
)

const (
	maxClients = 4
	maxWorkers = 2 // of a client
	maxNodes   = 5
)

// kinds of requests.
var kinds = map[string]uint64{
	"acquire": 0, "release": 1, "touch": 2, "leave": 3, "subscribe": 4, "inspect": 5, "break": 6, "message": 7,
}

// aligned is about d, so long that it ends at an instant of its own. It is never
// negative.
func aligned(d time.Duration, instant uint64) time.Duration {
	end := time.Now().Add(d).UnixNano()
	end += (int64(instant) - end%slice + slice) % slice
	return time.Duration(end - time.Now().UnixNano())
}

// mix is one round of a multiply-and-fold hash.
func mix(h, x uint64) uint64 {
	h = (h ^ x) * 0x9e3779b97f4a7c15 // the mixing steps of SplitMix64
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// dice is a generator of its own for each request.
type dice uint64

func (d *dice) below(n int64) int64 {
	*d = dice(mix(uint64(*d), 1))
	return int64(uint64(*d) % uint64(n))
}

// Whose a request is can be told from its words.
const (
	workers  = "worker" // and a number, then a dot
	channels = "wake"
)

// valueOf starts the values of a worker's locks.
func valueOf(source uint64) string { return workers + strconv.FormatUint(source, 10) }

func channelOf(client int) string { return channels + strconv.Itoa(client) }

// source is the worker that a request is of, or the first of its client where that is all
// that can be told.
func source(c redlocktest.Call) uint64 {
	word := ""
	switch c.Name {
	case "subscribe", "message":
		word = c.Keys[0]
	default:
		if len(c.Args) > 0 {
			word = c.Args[0]
		}
	}
	if rest, ok := strings.CutPrefix(word, workers); ok {
		return leading(rest)
	}
	if rest, ok := strings.CutPrefix(word, channels); ok {
		return leading(rest) * maxWorkers
	}
	return 0
}

// leading is the one digit that text starts with.
func leading(text string) uint64 { return uint64(text[0] - '0') }

// lane is a number for each source, kind of request and node.
func lane(c redlocktest.Call, node int) uint64 {
	return (source(c)*uint64(len(kinds))+kinds[c.Name])*maxNodes + uint64(node)
}

// network is the fate of a request to node i: it follows from the seed, the moment,
// whose request it is and its ballot, not from a generator that goroutines would share.
func (w *world) network(i int) func(redlocktest.Call) redlocktest.Fault {
	return func(c redlocktest.Call) redlocktest.Fault {
		lane := lane(c, i)
		d := dice(mix(w.fate(c, lane), uint64(time.Now().UnixNano())))
		var f redlocktest.Fault
		request := time.Duration(50_000 + d.below(400_000))
		reply := time.Duration(50_000 + d.below(400_000))
		switch d.below(60) {
		case 0:
			f.DropRequest = true
		case 1:
			f.DropReply = true
		case 2:
			for _, most := range []int64{900_000_000, 90_000_000} {
				again := time.Duration(d.below(most))
				f.Duplicates = append(f.Duplicates, w.free(0, aligned(again, arrival+lane)))
			}
		case 3:
			request += time.Duration(d.below(700_000_000))
		}
		f.Delay = w.free(0, aligned(request, arrival+lane))
		back := returning + 2*lane
		if c.Name == "message" {
			f.Delay, back = 0, notices+source(c)*maxNodes+uint64(i)
		}
		f.ReplyDelay = w.free(f.Delay, reply.Truncate(slice)+time.Duration(back))
		return f
	}
}

// fate follows from the seed, whose request it is and its ballot.
func (w *world) fate(c redlocktest.Call, lane uint64) uint64 {
	h := mix(w.seed, lane)
	if c.Name != "message" && len(c.Args) > 1 {
		for _, word := range c.Args[1:min(3, len(c.Args))] {
			n, _ := strconv.ParseUint(word, 10, 64) // what is no number is alike
			h = mix(h, n)
		}
	}
	return h
}

// free is d, or so many slices later that nothing else of its lane happens then: from now
// on that instant is taken.
func (w *world) free(after, d time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := time.Now().Add(after + d).UnixNano()
	for w.taken[at] {
		at, d = at+slice, d+slice
	}
	w.taken[at] = true
	return d
}

// line is a client's way to a node: it makes alike what differs from run to run, and
// lets no two errors arrive at once.
type line struct {
	*redlocktest.Node
	w            *world
	client, node int
}

func (w *world) lines(client int) []pool.Pool {
	pools := make([]pool.Pool, len(w.nodes))
	for i, n := range w.nodes {
		pools[i] = &line{Node: n, w: w, client: client, node: i}
	}
	return pools
}

// Eval is of pool.Pool.
func (l *line) Eval(ctx context.Context, s *pool.Script, keys []string, args ...any) ([]int64, error) {
	call := redlocktest.Call{Name: s.Name(), Args: make([]string, len(args))}
	words := make([]any, len(args))
	for i, arg := range args {
		text := fmt.Sprint(arg)
		if bytes, ok := arg.([]byte); ok {
			text = string(bytes)
		}
		if strings.HasPrefix(text, "redlock:wake:") {
			_, ticket, _ := strings.Cut(text, "#")
			text = channelOf(l.client) + "#" + ticket
		}
		call.Args[i], words[i] = text, text
	}
	lane := lane(call, l.node)
	fate := l.w.fate(call, lane)
	limited, cancel := l.limit(ctx, lane, fate)
	defer cancel()
	ints, err := l.Node.Eval(limited, s, keys, words...)
	if err != nil && limited.Err() == nil {
		l.refused(lane, fate)
	}
	return ints, err
}

// refused is the moment that it takes to see that one was refused or cut off.
func (l *line) refused(lane, fate uint64) {
	time.Sleep(l.w.free(0, aligned(time.Duration(fate%100*slice), returning+3*lane)))
}

// limit makes each request give up at an instant of its own, a little before or after
// its ctx ends.
func (l *line) limit(ctx context.Context, lane, fate uint64) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	off := time.Duration(givingUp + lane + fate%16*slice)
	if fate>>4%2 == 0 {
		off = -off
	}
	// Nothing else ends it: Close is given the time it needs.
	return context.WithDeadline(context.WithoutCancel(ctx), deadline.Add(off))
}

// Subscribe is of pool.Subscriber.
func (l *line) Subscribe(ctx context.Context, _ string, ready func(), message func(string)) error {
	call := redlocktest.Call{Name: "subscribe", Keys: []string{channelOf(l.client)}}
	err := l.Node.Subscribe(ctx, call.Keys[0], ready, message)
	if ctx.Err() == nil {
		lane := lane(call, l.node)
		l.refused(lane, l.w.fate(call, lane))
	}
	return err
}

// waking lets no two workers of a client go on at the same instant when a call or a timer
// wakes both.
type waking struct{ source uint64 }

// WaitDone is of redlock.WaitObserver.
func (o waking) WaitDone(context.Context, redlock.WaitEvent) { time.Sleep(aligned(1, woken+o.source)) }

// NodeDone is of redlock.Observer.
func (o waking) NodeDone(context.Context, redlock.NodeEvent) {}
