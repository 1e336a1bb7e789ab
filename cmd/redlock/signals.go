package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// signalError is a signal that ended something, as the cause of a context.
type signalError struct{ number int }

func (e signalError) Error() string { return fmt.Sprintf("signal %d", e.number) }

// untilSignal is a context that INT or TERM ends; endedBy tells which. The function
// gives the signals back.
func untilSignal() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	received, watched := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(received, os.Interrupt, syscall.SIGTERM)
	go func() {
		defer close(watched)
		select {
		case sig := <-received:
			cancel(signalError{numberOf(sig)})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(received)
		cancel(nil)
		<-watched
	}
}

// endedBy is the exit for the signal that ended ctx: nil when none did.
func endedBy(ctx context.Context) error {
	var ended signalError
	if !errors.As(context.Cause(ctx), &ended) {
		return nil
	}
	return exitWith(exitSignal + ended.number)
}

func numberOf(sig os.Signal) int {
	if number, ok := sig.(syscall.Signal); ok {
		return int(number)
	}
	return int(syscall.SIGINT)
}

// relay receives the signals that are meant for the command.
type relay struct {
	received chan os.Signal
}

// newRelay takes over the signals that a wait is to heed. One that was ignored from
// the start, as under nohup, stays so.
func newRelay() *relay {
	// Room for a burst: the runtime drops a signal that nobody takes.
	r := &relay{received: make(chan os.Signal, 32)}
	r.take(relayed)
	return r
}

func (r *relay) take(signals []os.Signal) {
	for _, sig := range signals {
		if !signal.Ignored(sig) {
			signal.Notify(r.received, sig)
		}
	}
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
