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

	acquireScript = pool.NewScript("acquire", libSource+guardSource+acquireSource)
	releaseScript = pool.NewScript("release", libSource+queueSource+releaseSource)
	touchScript   = pool.NewScript("touch", libSource+guardSource+touchSource)
	leaveScript   = pool.NewScript("leave", libSource+queueSource+leaveSource)
	inspectScript = pool.NewScript("inspect", libSource+inspectSource)
	breakScript   = pool.NewScript("break", libSource+queueSource+breakSource)
)
