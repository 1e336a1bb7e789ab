package redlock

import (
	_ "embed"
	"strings"

	"github.com/quorumlock/redlock/pool"
)

// The protocol as the nodes run it. Each header in scripts/ states keys,
// arguments and reply; node.go is the only caller.
var (
	//go:embed scripts/lib.lua
	libSource string
	//go:embed scripts/owner.lua
	ownerSource string
	//go:embed scripts/queue.lua
	queueSource string
	//go:embed scripts/guard.lua
	guardSource string
	//go:embed scripts/acquire.lua
	acquireSource string
	//go:embed scripts/release.lua
	releaseSource string
	//go:embed scripts/touch.lua
	touchSource string
	//go:embed scripts/leave.lua
	leaveSource string
	//go:embed scripts/inspect.lua
	inspectSource string
	//go:embed scripts/break.lua
	breakSource string

	acquireScript = newScript("acquire", acquireSource, replyForm{6, 2}, "", "granted", "busy", "stale", "quarantined")
	releaseScript = newScript("release", releaseSource, replyForm{6, 1}, "", "released", "missing", "other")
	touchScript   = newScript("touch", touchSource, replyForm{6, 6}, "", "held", "restored", "topped up", "gone", "other")
	leaveScript   = newScript("leave", leaveSource, replyForm{1, 1}, "", "left", "passed on", "nothing")
	inspectScript = newScript("inspect", inspectSource, replyForm{6, 6}, "free", "held")
	breakScript   = newScript("break", breakSource, replyForm{3, 3}, "", "broken", "missing", "other")
)

// includes are the lines of a script that stand for a file.
var includes = strings.NewReplacer("-- lib.lua\n", libSource, "-- owner.lua\n", ownerSource,
	"-- queue.lua\n", queueSource, "-- guard.lua\n", guardSource)

// script is a script and the form of its replies.
type script struct {
	*pool.Script
	hash     any // as a word of a call
	form     replyForm
	outcomes []string // by code; "" where there is none
}

// replyForm is how many integers there are in a reply, the code being the first; and in
// the usual reply, whose code is 1 and which may leave out zeros at its end.
type replyForm struct{ integers, usual int }

// fits reports whether a reply is of the form.
func (f replyForm) fits(ints []int64) bool {
	return len(ints) == f.integers || len(ints) == f.usual && ints[0] == 1
}

func newScript(name, source string, form replyForm, outcomes ...string) *script {
	s := pool.NewScript(name, includes.Replace(source))
	return &script{Script: s, hash: s.Hash(), form: form, outcomes: outcomes}
}
