package redlockotel_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/testutil"
	"github.com/quorumlock/redlock/redlockotel"
	"github.com/quorumlock/redlock/redlocktest"
)

func TestMain(m *testing.M) { os.Exit(testutil.Main(m)) }

// A bench is a lock service with an observer, and all that the observer told.
type bench struct {
	t        *testing.T
	nodes    redlocktest.Nodes
	locks    *redlock.Redlock
	observer *redlockotel.Observer
	spans    *tracetest.SpanRecorder
	tracer   trace.Tracer
	reader   *sdkmetric.ManualReader
}

func newBench(t *testing.T, nodes int, opts ...redlockotel.Option) *bench {
	t.Helper()
	b := &bench{t: t, nodes: redlocktest.NewNodes(nodes), spans: tracetest.NewSpanRecorder(), reader: sdkmetric.NewManualReader()}
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(b.spans))
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(b.reader))
	b.tracer = tracers.Tracer("test")
	var err error
	b.observer, err = redlockotel.New(append([]redlockotel.Option{
		redlockotel.WithTracerProvider(tracers), redlockotel.WithMeterProvider(meters),
	}, opts...)...)
	require.NoError(t, err)
	for _, n := range b.nodes {
		n.SetDelay(time.Millisecond, time.Millisecond)
	}
	b.locks, err = redlock.New(b.nodes.Pools(), redlock.WithObserver(b.observer))
	require.NoError(t, err)
	return b
}

func (b *bench) close() {
	b.t.Helper()
	require.NoError(b.t, b.locks.Close(b.t.Context()))
	synctest.Wait()
}

// lines are the ended spans as "parent/span", with the root as "-", in the order of
// their starts.
func (b *bench) lines() (lines []string) {
	ended := b.spans.Ended()
	names := map[trace.SpanID]string{}
	for _, s := range ended {
		names[s.SpanContext().SpanID()] = s.Name()
	}
	for _, s := range b.spans.Started() {
		name, ok := names[s.SpanContext().SpanID()]
		if !ok {
			continue
		}
		above := "-"
		if s.Parent().IsValid() {
			above = names[s.Parent().SpanID()]
		}
		lines = append(lines, above+"/"+name)
	}
	return lines
}

func (b *bench) named(name string) (spans []sdktrace.ReadOnlySpan) {
	for _, s := range b.spans.Ended() {
		if s.Name() == name {
			spans = append(spans, s)
		}
	}
	return spans
}

func (b *bench) span(name string) sdktrace.ReadOnlySpan {
	b.t.Helper()
	all := b.named(name)
	require.Len(b.t, all, 1, name)
	return all[0]
}

// has demands attributes, each with the value as text.
func has(t *testing.T, all []attribute.KeyValue, want ...string) {
	t.Helper()
	texts := texts(all)
	for i := 0; i < len(want); i += 2 {
		require.Contains(t, texts, want[i]+"="+want[i+1])
	}
}

func texts(all []attribute.KeyValue) (texts []string) {
	for _, a := range all {
		texts = append(texts, string(a.Key)+"="+a.Value.String())
	}
	return texts
}

func TestSpanTreeOfDo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 3)
		b.nodes[2].SetDelay(40*time.Millisecond, 40*time.Millisecond) // its replies come late
		ctx, caller := b.tracer.Start(t.Context(), "caller")
		started := time.Now()
		err := b.locks.Do(ctx, "jobs", func(ctx context.Context) error {
			ctx = b.observer.Within(ctx, "jobs")
			_, work := b.tracer.Start(ctx, "work")
			time.Sleep(3 * time.Second) // one renewal, at a third of the expiry of 8 s
			work.End()
			return nil
		})
		require.NoError(t, err)
		b.close()
		caller.End()
		require.Equal(t, []string{
			"-/caller",
			"caller/redlock.lock", "caller/redlock.hold", "redlock.hold/work", "redlock.lock/redlock.node",
			"redlock.hold/redlock.renew", "redlock.renew/redlock.node",
			"redlock.hold/redlock.unlock", "redlock.unlock/redlock.node",
		}, b.lines())

		lock := b.span("redlock.lock")
		require.Equal(t, started, lock.StartTime())
		require.Equal(t, 2*time.Millisecond, lock.EndTime().Sub(lock.StartTime()))
		has(t, lock.Attributes(), "redlock.outcome", "ok", "redlock.attempts", "1", "redlock.nodes", "2")
		require.Len(t, lock.Events(), 2)
		for _, e := range lock.Events() {
			require.Equal(t, "node", e.Name)
			has(t, e.Attributes, "redlock.request", "acquire", "redlock.outcome", "granted", "redlock.latency", "0.002")
		}
		require.ElementsMatch(t, []string{"node0", "node1"},
			[]string{lock.Events()[0].Attributes[0].Value.AsString(), lock.Events()[1].Attributes[0].Value.AsString()})

		late := b.named("redlock.node")[0]
		has(t, late.Attributes(), "redlock.node", "node2", "redlock.outcome", "granted")
		require.Equal(t, 80*time.Millisecond, late.EndTime().Sub(late.StartTime()))

		hold := b.span("redlock.hold")
		require.Equal(t, lock.EndTime(), hold.StartTime())
		require.Equal(t, b.span("redlock.unlock").EndTime(), hold.EndTime())
		has(t, hold.Attributes(), "redlock.outcome", "released")
		for _, s := range b.spans.Ended() {
			require.Equal(t, codes.Unset, s.Status().Code, s.Name())
		}
	})
}

func TestSpanOfEachPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 3)
		holder := b.locks.NewMutex("jobs")
		require.NoError(t, holder.Lock())
		ctx, caller := b.tracer.Start(t.Context(), "waiter")
		done := make(chan error)
		go func() {
			m := b.locks.NewMutex("jobs")
			err := m.LockContext(ctx)
			if err == nil {
				_, err = m.UnlockContext(ctx)
			}
			done <- err
		}()
		time.Sleep(600 * time.Millisecond)
		_, err := holder.Unlock()
		require.NoError(t, err)
		require.NoError(t, <-done)
		caller.End()
		b.close()

		var lock sdktrace.ReadOnlySpan
		for _, s := range b.named("redlock.lock") {
			if s.Parent().IsValid() {
				lock = s
			}
		}
		require.NotNil(t, lock, "the waiter's lock lies below its caller")
		woken := map[string]time.Duration{}
		var waited time.Duration
		for _, s := range b.named("redlock.wait") {
			require.Equal(t, lock.SpanContext().SpanID(), s.Parent().SpanID())
			woken[s.Attributes()[0].Value.AsString()] += s.EndTime().Sub(s.StartTime())
			waited += s.EndTime().Sub(s.StartTime())
		}
		require.Positive(t, woken["timer"], "%v", woken)
		require.Positive(t, woken["notice"], "%v", woken)
		require.Less(t, waited, lock.EndTime().Sub(lock.StartTime()))
		require.Greater(t, waited, 550*time.Millisecond)
		requireCount(t, b, "redlock.grants", 2)
		pauses := points(t, b, "redlock.wait.duration")
		require.EqualValues(t, len(b.named("redlock.wait")), pauses["redlock.woken_by=notice"]+pauses["redlock.woken_by=timer"]+pauses["redlock.woken_by=poll"])
	})
}

// Unlock without a ctx has no caller, but is about a hold that has one.
func TestVerbsWithoutCallerLieBelowTheHold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 3)
		ctx, caller := b.tracer.Start(t.Context(), "caller")
		m := b.locks.NewMutex("jobs")
		require.NoError(t, m.LockContext(ctx))
		synctest.Wait()
		_, err := m.Extend()
		require.NoError(t, err)
		other, elsewhere := b.tracer.Start(t.Context(), "elsewhere")
		_, err = m.ExtendContext(other)
		require.NoError(t, err)
		elsewhere.End()
		time.Sleep(time.Second)
		_, err = m.Unlock()
		require.NoError(t, err)
		caller.End()
		b.close()
		lines := b.lines()
		require.Contains(t, lines, "redlock.hold/redlock.extend")
		require.Contains(t, lines, "elsewhere/redlock.extend", "a caller's own span comes first")
		require.Contains(t, lines, "redlock.hold/redlock.unlock")
	})
}

func TestFaultOfOneNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 3)
		b.nodes[1].SetError("", "NOPERM User locker has no permissions")
		b.nodes[1].SetDelay(0, 0) // the fault comes before the quorum
		m := b.locks.NewMutex("jobs")
		require.NoError(t, m.Lock())
		time.Sleep(time.Second)
		_, err := m.Unlock()
		require.NoError(t, err)
		_ = b.locks.Close(t.Context())
		synctest.Wait()

		lock := b.span("redlock.lock")
		has(t, lock.Attributes(), "redlock.degraded", "true", "redlock.outcome", "ok")
		require.Equal(t, codes.Unset, lock.Status().Code, "the lock was granted")
		bad := lock.Events()[0]
		has(t, bad.Attributes, "redlock.node", "node1", "redlock.outcome", "error", "error.type", "NOPERM",
			"exception.message", "node 1 (node1): NOPERM User locker has no permissions")
		requireCount(t, b, "redlock.degraded", 2) // lock and unlock
		require.EqualValues(t, 1, points(t, b, "redlock.degraded")["redlock.verb=lock"])
		faults := points(t, b, "redlock.node.errors")
		require.EqualValues(t, 1, faults["error.type=NOPERM redlock.node=node1 redlock.request=acquire"])
		for key := range faults {
			require.Contains(t, key, "redlock.node=node1")
		}
	})
}

func TestLossEndsTheHold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 3)
		ctx, caller := b.tracer.Start(t.Context(), "caller")
		m := b.locks.NewMutex("jobs")
		held, err := m.Hold(ctx)
		require.NoError(t, err)
		for _, n := range b.nodes {
			n.DropRequests(true)
		}
		<-held.Done()
		synctest.Wait()
		hold := b.span("redlock.hold")
		has(t, hold.Attributes(), "redlock.outcome", "lost")
		require.Equal(t, codes.Error, hold.Status().Code)
		requireCount(t, b, "redlock.losses", 1)
		require.EqualValues(t, 1, points(t, b, "redlock.hold.duration")["redlock.outcome=lost"])
		for _, n := range b.nodes {
			n.DropRequests(false)
		}
		time.Sleep(10 * time.Second)
		_, err = m.UnlockContext(ctx)
		require.ErrorIs(t, err, redlock.ErrExpired)
		caller.End()
		_ = b.locks.Close(t.Context())
		synctest.Wait()
		requireCount(t, b, "redlock.hold.duration", 1) // it is not entered twice
		has(t, b.span("redlock.unlock").Attributes(), "redlock.outcome", "expired", "error.type", "expired")
		require.Contains(t, b.lines(), "redlock.hold/redlock.unlock")
		renewal := b.named("redlock.renew")[0]
		require.Equal(t, codes.Error, renewal.Status().Code)
		has(t, renewal.Attributes(), "redlock.outcome", "no_quorum")
	})
}

func TestFailedCleanUpIsCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 3)
		m := b.locks.NewMutex("jobs", redlock.WithExpiry(2*time.Second))
		require.NoError(t, m.Lock())
		synctest.Wait()
		b.nodes[2].Down()
		_, err := m.Unlock()
		require.NoError(t, err)
		b.close()
		requireCount(t, b, "redlock.background.errors", 1)
		require.Greater(t, points(t, b, "redlock.node.errors")["error.type=network redlock.node=node2 redlock.request=release"], int64(1))
		requireCount(t, b, "redlock.losses", 0)
	})
}

func TestBusyIsNoError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 3)
		m := b.locks.NewMutex("jobs")
		require.NoError(t, m.Lock())
		synctest.Wait()
		require.ErrorIs(t, b.locks.NewMutex("jobs").TryLock(), redlock.ErrTaken)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, b.locks.NewMutex("jobs").LockContext(ctx))
		_, err := m.Unlock()
		require.NoError(t, err)
		b.close()
		calls := points(t, b, "redlock.operation.duration")
		require.EqualValues(t, 1, calls["redlock.outcome=taken redlock.verb=lock"])
		require.EqualValues(t, 1, calls["redlock.outcome=timeout redlock.verb=lock"])
		require.EqualValues(t, 1, calls["redlock.outcome=ok redlock.verb=lock"])
		require.EqualValues(t, 1, calls["redlock.outcome=ok redlock.verb=unlock"])
		for _, s := range b.named("redlock.lock") {
			switch outcome := strings.Join(texts(s.Attributes()), " "); {
			case strings.Contains(outcome, "taken"):
				require.Equal(t, codes.Unset, s.Status().Code)
			case strings.Contains(outcome, "timeout"):
				require.Equal(t, codes.Error, s.Status().Code)
			}
		}
	})
}

func TestNamesOnRequestOnly(t *testing.T) {
	t.Parallel()
	family := func(name string) string { before, _, _ := strings.Cut(name, ":"); return before }
	for title, c := range map[string]struct {
		opts            []redlockotel.Option
		spans, measures string
	}{
		"default":  {},
		"mapped":   {[]redlockotel.Option{redlockotel.WithLockNames(family)}, "order", "order"},
		"as it is": {[]redlockotel.Option{redlockotel.WithLockNames(nil)}, "order:4711", "order:4711"},
		"spans":    {[]redlockotel.Option{redlockotel.WithSpanLockNames(nil)}, "order:4711", ""},
		"both": {
			[]redlockotel.Option{redlockotel.WithLockNames(family), redlockotel.WithSpanLockNames(nil)},
			"order:4711", "order",
		},
		"left out": {[]redlockotel.Option{redlockotel.WithLockNames(func(string) string { return "" })}, "", ""},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, 3, c.opts...)
				other := b.locks.NewMutex("order:4711")
				require.NoError(t, other.Lock())
				go func() {
					time.Sleep(50 * time.Millisecond)
					other.Unlock() //nolint:errcheck // the wait for it tells
				}()
				require.NoError(t, b.locks.Do(t.Context(), "order:4711", func(ctx context.Context) error {
					brief, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
					defer cancel()
					require.Error(t, b.locks.NewMutex("order:4711").LockContext(brief))
					return nil
				}))
				b.close()
				require.NotEmpty(t, b.named("redlock.wait"))
				for _, s := range b.spans.Ended() {
					all := strings.Join(texts(s.Attributes()), " ") + s.Status().Description
					if c.spans == "" {
						require.NotContains(t, all, "order", s.Name())
						require.NotContains(t, all, "redlock.name", s.Name())
					} else {
						require.Contains(t, texts(s.Attributes()), "redlock.name="+c.spans, s.Name())
					}
					for _, e := range s.Events() {
						require.NotContains(t, strings.Join(texts(e.Attributes), " "), "order")
					}
				}
				for _, metric := range measured(t, b) {
					for key := range points(t, b, metric) {
						if c.measures == "" || strings.HasPrefix(metric, "redlock.node.") {
							require.NotContains(t, key, "order", metric)
						} else {
							require.Contains(t, strings.Fields(key), "redlock.name="+c.measures, metric)
						}
					}
				}
			})
		})
	}
}

// What is looked at without a verb around it has metrics alone.
func TestInspectHasNoSpan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 3)
		_, err := b.locks.Inspect(t.Context(), "jobs")
		require.NoError(t, err)
		b.close()
		require.Empty(t, b.spans.Started())
		var asked int64
		for key, n := range points(t, b, "redlock.node.request.duration") {
			require.Contains(t, key, "redlock.request=inspect")
			asked += n
		}
		require.EqualValues(t, 3, asked)
	})
}

func TestWithinWithoutAHold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 3)
		require.Equal(t, t.Context(), b.observer.Within(t.Context(), "jobs"))
		require.NoError(t, b.locks.Do(t.Context(), "jobs", func(ctx context.Context) error {
			require.Equal(t, ctx, b.observer.Within(ctx, "another"))
			inner := b.observer.Within(ctx, "jobs")
			require.NotEqual(t, ctx, inner)
			token, ok := redlock.TokenFromContext(inner)
			require.True(t, ok)
			require.Positive(t, token)
			return nil
		}))
		b.close()
	})
}

// The globals are replaced while no other test runs.
func TestDefaultsAreTheGlobals(t *testing.T) {
	spans, reader := tracetest.NewSpanRecorder(), sdkmetric.NewManualReader()
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)))
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	t.Cleanup(func() {
		otel.SetTracerProvider(sdktrace.NewTracerProvider())
		otel.SetMeterProvider(noop.NewMeterProvider())
	})
	observer, err := redlockotel.New(nil, redlockotel.WithTracerProvider(nil), redlockotel.WithMeterProvider(nil))
	require.NoError(t, err)
	locks, err := redlock.New(redlocktest.NewNodes(1).Pools(), redlock.WithObserver(observer))
	require.NoError(t, err)
	require.NoError(t, locks.Do(t.Context(), "jobs", func(context.Context) error { return nil }))
	require.NoError(t, locks.Close(t.Context()))
	b := &bench{t: t, spans: spans, reader: reader}
	require.Equal(t, []string{"-/redlock.lock", "-/redlock.hold", "redlock.hold/redlock.unlock"}, b.lines())
	requireCount(t, b, "redlock.grants", 1)
}
