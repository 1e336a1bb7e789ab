package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/redlockotel"
	"github.com/quorumlock/redlock/redlocktest"
)

const (
	expiry  = 2 * time.Second
	workers = 4
	orders  = 3 // of each worker in a round
)

// shop takes locks in rounds, one if once, else until ctx ends.
func shop(ctx context.Context, tracer trace.Tracer, observer *redlockotel.Observer, once bool) (err error) {
	nodes := redlocktest.NewNodes(5)
	for i, n := range nodes {
		d := time.Duration(i+1) * 200 * time.Microsecond // one way; the last are farther away
		n.SetDelay(d, d)
	}
	locks, err := redlock.New(nodes.Pools(), redlock.WithObserver(observer), redlock.WithExpiry(expiry), redlock.WithNodeTimeout(expiry/4))
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err = errors.Join(err, locks.Close(closing))
	}()
	s := &service{locks: locks, nodes: nodes, tracer: tracer, observer: observer}
	for {
		err := errors.Join(s.rush(ctx), s.slowNight(ctx), s.outage(ctx))
		if ctx.Err() != nil {
			return nil
		}
		if err != nil || once {
			return err
		}
	}
}

type service struct {
	locks    *redlock.Redlock
	nodes    redlocktest.Nodes
	tracer   trace.Tracer
	observer *redlockotel.Observer
}

// rush has several workers want the same order, while the nearest node refuses to
// serve: a degraded quorum, and waiters that are woken.
func (s *service) rush(ctx context.Context) error {
	s.nodes[0].SetError("", "READONLY You can't write against a read only replica.")
	defer s.nodes[0].SetError("", "")
	errs := make([]error, workers)
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for range orders {
				errs[w] = errors.Join(errs[w], s.checkout(ctx, 20*time.Millisecond))
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// checkout is one request: it works under a lock.
func (s *service) checkout(ctx context.Context, work time.Duration) error {
	ctx, span := s.tracer.Start(ctx, "checkout")
	defer span.End()
	const name = "order:8123"
	return s.locks.Do(ctx, name, func(ctx context.Context) error {
		_, span := s.tracer.Start(s.observer.Within(ctx, name), "charge")
		defer span.End()
		return sleep(ctx, work)
	})
}

// slowNight is a job that is longer than the expiry, so that its lock is renewed,
// with one node down.
func (s *service) slowNight(ctx context.Context) error {
	s.nodes[1].Down()
	defer s.nodes[1].Up()
	ctx, span := s.tracer.Start(ctx, "nightly")
	defer span.End()
	return s.locks.Do(ctx, "nightly", func(ctx context.Context) error { return sleep(ctx, expiry*4/5) })
}

// outage takes the quorum away while a lock is held: the lock is lost.
func (s *service) outage(ctx context.Context) error {
	ctx, span := s.tracer.Start(ctx, "report")
	defer span.End()
	err := s.locks.Do(ctx, "report", func(ctx context.Context) error {
		for _, n := range s.nodes[:3] {
			n.DropRequests(true)
		}
		<-ctx.Done() // the work stops, in time
		for _, n := range s.nodes[:3] {
			n.DropRequests(false)
		}
		return nil
	})
	if ctx.Err() == nil && !errors.Is(err, redlock.ErrLost) {
		return fmt.Errorf("the lock should have been lost, got %w", err)
	}
	return nil
}

// sleep is the work.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
