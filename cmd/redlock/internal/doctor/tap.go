package doctor

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/quorumlock/redlock/pool"
)

// tap is a node's pool that notes how the node answered: the library leaves the queue
// in the background, where a refusal reaches no caller. And it finds out which command
// of a script was refused: before Redis 7.2 a node does not say.
type tap struct {
	node    pool.Pool
	changed chan struct{} // holds one entry when something was noted; for one reader

	mu    sync.Mutex
	asked []answer             // guarded by mu
	hear  func(payload string) // guarded by mu; nil before the client has subscribed
}

// answer is what the node said to one script.
type answer struct {
	script string
	member string // place in the queue that it was about, "" for none
	reply  []int64
	err    error
}

// Of the scripts' headers: which argument is the member, and what replies mean.
const (
	acquireMember = 5
	leaveMember   = 0
	busy          = 2
	rankInBusy    = 5
	hasLeft       = 1
)

func newTap(p pool.Pool) *tap { return &tap{node: p, changed: make(chan struct{}, 1)} }

// Eval is of pool.Pool.
func (t *tap) Eval(ctx context.Context, s *pool.Script, keys []string, args ...any) ([]int64, error) {
	reply, err := t.node.Eval(ctx, s, keys, args...)
	err = named(err, s)
	a := answer{script: s.Name(), reply: slices.Clone(reply), err: err}
	switch a.script {
	case "acquire":
		if len(args) > acquireMember {
			a.member, _ = args[acquireMember].(string)
		}
	case "leave":
		a.member, _ = args[leaveMember].(string)
	}
	t.mu.Lock()
	t.asked = append(t.asked, a)
	t.mu.Unlock()
	select {
	case t.changed <- struct{}{}:
	default:
	}
	return reply, err
}

// Get is of pool.TextReader.
func (t *tap) Get(ctx context.Context, key string) (string, bool, error) {
	reader, ok := t.node.(pool.TextReader)
	if !ok {
		return "", false, errors.ErrUnsupported
	}
	return reader.Get(ctx, key)
}

// Subscribe is of pool.Subscriber.
func (t *tap) Subscribe(ctx context.Context, channel string, ready func(), message func(string)) error {
	t.mu.Lock()
	t.hear = message
	t.mu.Unlock()
	return t.node.(pool.Subscriber).Subscribe(ctx, channel, ready, message)
}

// call gives the client a notice as if the node had sent it.
func (t *tap) call(payload string) {
	t.mu.Lock()
	hear := t.hear
	t.mu.Unlock()
	hear(payload)
}

// await takes the first answer that matters, and those before it, off the notes.
func (t *tap) await(ctx context.Context, matters func(answer) bool) (a answer, found bool) {
	for {
		t.mu.Lock()
		i := slices.IndexFunc(t.asked, matters)
		if i >= 0 {
			a = t.asked[i]
			t.asked = slices.Delete(t.asked, 0, i+1)
		}
		t.mu.Unlock()
		if i >= 0 {
			return a, true
		}
		select {
		case <-t.changed:
		case <-ctx.Done():
			return answer{}, false
		}
	}
}

// queuing: an acquire that was to queue was refused or found the lock busy.
func queuing(a answer) bool {
	return a.script == "acquire" && a.member != "" && (a.err != nil || len(a.reply) > rankInBusy && a.reply[0] == busy)
}

// leaving: the member was to give its place up.
func leaving(member string) func(answer) bool {
	return func(a answer) bool { return a.script == "leave" && a.member == member }
}

// scriptError is a node's error in a script, with the command that it came from.
type scriptError struct {
	error
	command string
}

func (e *scriptError) Unwrap() error { return e.error }

// text leaves out where in the script it was.
func (e *scriptError) text() string {
	said, _, _ := strings.Cut(e.Error(), " script: ")
	return e.command + ": " + said
}

var (
	scriptLine = regexp.MustCompile(`@user_script: ?(\d+)`)
	scriptCall = regexp.MustCompile(`redis\.p?call\('(\w+)'`)
)

// named adds the command that stands in the line of the source that an error names.
func named(err error, s *pool.Script) error {
	if err == nil {
		return nil
	}
	at := scriptLine.FindStringSubmatch(err.Error())
	if at == nil {
		if s.Name() == "acquire" && strings.Contains(err.Error(), "user executing the script can't") {
			return &scriptError{err, "SET"} // the one command whose error a script returns
		}
		return err
	}
	lines := strings.Split(s.Source(), "\n")
	number, wrong := strconv.Atoi(at[1])
	if wrong != nil || number < 1 || number > len(lines) {
		return err
	}
	call := scriptCall.FindStringSubmatch(lines[number-1])
	if call == nil {
		return err
	}
	return &scriptError{err, call[1]}
}
