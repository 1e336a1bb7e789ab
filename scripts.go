package redlock

import (
	_ "embed"

	"github.com/quorumlock/redlock/pool"
)

// The protocol as the nodes run it. Each header in scripts/ states keys,
// arguments and reply; node.go is the only caller.
var (
	//go:embed scripts/lib.lua
	libSource string
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

	acquireScript = newScript("acquire", libSource+guardSource+acquireSource, 6, "", "granted", "busy", "stale", "quarantined")
	releaseScript = newScript("release", libSource+queueSource+releaseSource, 6, "", "released", "missing", "other")
	touchScript   = newScript("touch", libSource+guardSource+touchSource, 6, "", "held", "restored", "topped up", "gone", "other")
	leaveScript   = newScript("leave", libSource+queueSource+leaveSource, 1, "", "left", "passed on", "nothing")
	inspectScript = newScript("inspect", libSource+inspectSource, 6, "free", "held")
	breakScript   = newScript("break", libSource+queueSource+breakSource, 3, "", "broken", "missing", "other")
)

// script is a script and the form of its replies.
type script struct {
	*pool.Script
	hash     any      // as a word of a call
	integers int      // in a reply; the first is the code
	outcomes []string // by code; "" where there is none
}

func newScript(name, source string, integers int, outcomes ...string) *script {
	s := pool.NewScript(name, source)
	return &script{Script: s, hash: s.Hash(), integers: integers, outcomes: outcomes}
}
