package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/quorumlock/redlock"
)

// handedOver is a lock that somebody else acquired.
type handedOver struct {
	nodeFlags
	Name  string `arg:"" help:"Name of the lock."`
	Value string `required:"" env:"REDLOCK_VALUE" help:"The value of its holder."`
}

type extendCommand struct {
	handedOver
	TTL time.Duration `name:"ttl" default:"30s" help:"How long the lock is to live from now. It is never made shorter."`
}

func (*extendCommand) Help() string {
	return `The value is REDLOCK_VALUE in the environment of a command under run --keep, Mutex.Value() in Go, or what status shows.

Exit codes: 0 extended; 64 usage; 69 no quorum of nodes; 79 the lock is no longer held with this value.

Examples:

    redlock extend deploy --value "$REDLOCK_VALUE" --ttl 10m
    REDLOCK_VALUE=$(cat lock-value) redlock extend deploy`
}

type unlockCommand struct{ handedOver }

func (*unlockCommand) Help() string {
	return `The value is REDLOCK_VALUE in the environment of a command under run --keep, Mutex.Value() in Go, or what status shows.
A value that no longer holds the lock changes nothing.

Exit codes: 0 released; 64 usage; 69 no quorum of nodes; 79 the lock is no longer held with this value.

Examples:

    redlock run --name deploy --ttl 1h --keep -- sh -c 'echo $REDLOCK_VALUE >lock-value'
    redlock unlock deploy --value "$(cat lock-value)"`
}

// Run is called by kong.
func (c *extendCommand) Run(s streams) error {
	return c.act(s, func(ctx context.Context, m *redlock.Mutex) error {
		_, err := m.ExtendContext(ctx)
		return err
	}, redlock.WithExpiry(c.TTL))
}

// Run is called by kong.
func (c *unlockCommand) Run(s streams) error {
	return c.act(s, func(ctx context.Context, m *redlock.Mutex) error {
		_, err := m.UnlockContext(ctx)
		return err
	}, redlock.WithNodeTimeout(patience))
}

func (c *handedOver) act(s streams, verb func(context.Context, *redlock.Mutex) error, opts ...redlock.Option) error {
	if err := needNames([]string{c.Name}); err != nil {
		return err
	}
	if c.Value == "" {
		return usagef("--value must not be empty")
	}
	service, err := c.service(s, opts...)
	if err != nil {
		return err
	}
	defer service.close()
	ctx, stop := untilSignal()
	defer stop()
	err = verb(ctx, service.NewMutex(c.Name, redlock.WithValue(c.Value)))
	var taken *redlock.TakenError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, redlock.ErrInvalidOption):
		return flagError(err)
	case errors.As(err, &taken):
		return exitf(exitLost, "%q is not held with this value: %s", c.Name, holderLine(taken))
	case errors.Is(err, redlock.ErrExpired):
		return exitf(exitLost, "%q is not held with this value: nobody holds it", c.Name)
	case ctx.Err() != nil:
		return endedBy(ctx)
	}
	return exitf(exitUnavailable, "%s", plain(err))
}

// ownValue is what the value of a lock of this tool starts with: whoever reads it
// on a node, or asks for the status, sees where the holder runs.
func ownValue() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s/%d", host, os.Getpid()), nil
}
