package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/redlock"
)

// holding is the time from the grant to the release.
type holding struct {
	*runCommand
	s       streams
	log     *slog.Logger
	mutex   *redlock.Mutex
	held    context.Context
	signals *relay
	since   time.Time
}

// supervise runs the command until it ends, and releases the lock.
func (h *holding) supervise(argv []string) error {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = h.s.in, h.s.out, h.s.err
	cmd.Env = environment(os.Environ(), h.mutex)
	h.signals.take(relayedOnly)
	child, err := startChild(cmd)
	if err != nil {
		_, _ = h.mutex.Unlock() // the command's failure is what matters
		return exitf(exitNotExecutable, "%s: cannot be executed: %w", argv[0], err)
	}
	code, alive := 0, true
	for alive {
		select {
		case code = <-child.ended:
			alive = false
		case sig := <-h.signals.received:
			h.log.Info("signal passed on", "signal", sig)
			child.relay(sig)
		case sig := <-child.stopped:
			child.suspend(sig)
		case <-h.held.Done():
			fmt.Fprintf(h.s.err, "redlock: %v; ending the command\n", context.Cause(h.held))
			child.end(h.Grace)
			_, _ = h.mutex.Unlock() // frees what is left of it on a minority
			return exitWith(exitLost)
		}
	}
	child.close()
	h.log.Info("command ended", "code", code, "after", time.Since(h.since))
	return h.finish(code)
}

// lost reports whether the lock did not outlast the command. The clocks decide, not
// which channel was read first.
func (h *holding) lost() bool {
	return h.held.Err() != nil && errors.Is(context.Cause(h.held), redlock.ErrLost)
}

// finish gives the lock back, or leaves it to whoever has its value.
func (h *holding) finish(code int) error {
	if h.lost() {
		_, _ = h.mutex.Unlock() // frees what is left of it on a minority
		return h.wasLost()
	}
	if h.Keep && code == 0 {
		return h.leave()
	}
	waited := h.outlast()
	_, err := h.mutex.Unlock()
	gone := errors.Is(err, redlock.ErrExpired) || errors.Is(err, redlock.ErrTaken)
	switch {
	case err == nil:
		h.log.Info("lock released", "name", h.Name, "held", time.Since(h.since))
	case gone && waited: // outlast has told; the command had the lock from start to end
	case gone:
		return h.wasLost()
	default:
		fmt.Fprintf(h.s.err, "redlock: the command has ended, but %q could not be released and stays held for up to %v: %s\n",
			h.Name, h.TTL, escaped(withoutPasswords(plain(err))))
	}
	return exitWith(code)
}

func (h *holding) wasLost() error {
	return exitf(exitLost, "%q was lost while the command ran", h.Name)
}

// outlast keeps the lock until --hold-at-least is over, or a signal ends the wait. It
// reports whether there was anything to wait for.
func (h *holding) outlast() bool {
	left := h.HoldAtLeast - time.Since(h.since)
	if left <= 0 {
		return false
	}
	h.log.Info("keeping the lock", "for", left)
	timer := time.NewTimer(left)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return true
		case sig := <-h.signals.received:
			if _, ends := endsWait(sig); ends {
				return true
			}
			heedStop(sig)
		case <-h.held.Done():
			fmt.Fprintf(h.s.err, "redlock: after the command, before --hold-at-least was over: %v\n", context.Cause(h.held))
			return true
		}
	}
}

// leave hands the lock over with a whole --ttl before it, and with what is left of
// --hold-at-least, if that is more: nobody renews it from now on.
func (h *holding) leave() error {
	life := max(h.TTL, h.HoldAtLeast-time.Since(h.since))
	switch _, err := h.mutex.ExtendFor(context.Background(), life); {
	case err == nil:
		h.log.Info("lock left held", "name", h.Name, "until", h.mutex.Until())
		return nil
	case errors.Is(err, redlock.ErrNoQuorum) && h.mutex.Valid():
		fmt.Fprintf(h.s.err, "redlock: %q could not be extended and stays held until %s: %s\n",
			h.Name, h.mutex.Until().Format(time.TimeOnly), withoutPasswords(plain(err)))
		return nil
	}
	return h.wasLost()
}

// environment is the command's: with the grant, and without the nodes' passwords.
func environment(base []string, mutex *redlock.Mutex) []string {
	grant := map[string]string{
		"REDLOCK_NAME": mutex.Name(), "REDLOCK_TOKEN": strconv.FormatInt(mutex.Token(), 10), "REDLOCK_VALUE": mutex.Value(),
	}
	env := slices.DeleteFunc(slices.Clone(base), func(entry string) bool {
		key, _, _ := strings.Cut(entry, "=")
		_, ours := grant[key]
		return ours || key == nodesVariable
	})
	for key, value := range grant {
		env = append(env, key+"="+value)
	}
	return env
}
