package main

import (
	"os"
	"os/signal"
)

// relay receives the signals that are meant for the command.
type relay struct {
	received chan os.Signal
}

// newRelay takes over the signals. One that was ignored from the start, as under
// nohup, stays so.
func newRelay() *relay {
	// Room for a burst: the runtime drops a signal that nobody takes.
	r := &relay{received: make(chan os.Signal, 32)}
	for _, sig := range relayed {
		if !signal.Ignored(sig) {
			signal.Notify(r.received, sig)
		}
	}
	return r
}

func (r *relay) stop() { signal.Stop(r.received) }

// untilFatal calls fatal with the number of the first signal that ends a wait, and
// returns then or when done is closed. There is no command yet to tell of others.
func (r *relay) untilFatal(done <-chan struct{}, fatal func(number int)) {
	for {
		select {
		case sig := <-r.received:
			if number, ends := endsWait(sig); ends {
				fatal(number)
				return
			}
		case <-done:
			return
		}
	}
}
