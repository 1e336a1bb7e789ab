package redlock

import "time"

// SetClientClock makes r believe in a wall clock that is ahead of this machine's, as
// if it had been so when r was made. It is the only place where the client's own
// clock enters what it sends; validity is counted in differences.
func (r *Redlock) SetClientClock(ahead time.Duration) { r.clock.startUS += ahead.Microseconds() }
