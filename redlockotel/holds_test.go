package redlockotel

import (
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"github.com/quorumlock/redlock"
)

// Grants that are left to expire must not pile up.
func TestHoldsAreBounded(t *testing.T) {
	s := newHolds()
	s.limit = 3
	first := &hold{name: "a", token: 1}
	require.Nil(t, s.add(first))
	second := &hold{name: "a", token: 2}
	require.Nil(t, s.add(second))
	require.True(t, s.finish(second, false), "lost, its unlock is to come")
	require.Nil(t, s.add(&hold{name: "b", token: 3}))
	require.Same(t, first, s.add(&hold{name: "b", token: 4}))
	require.Nil(t, s.of("a", 1))
	require.Nil(t, s.add(&hold{name: "b", token: 5}), "the second has ended already")
	require.Equal(t, 3, s.order.Len())
	require.Len(t, s.byName, 1)
	require.False(t, s.finish(second, true), "an unlock of one that was forgotten")
	for token := range int64(6) {
		if h := s.of("b", token); h != nil {
			require.True(t, s.finish(h, true))
		}
	}
	require.Empty(t, s.byName)
	require.Zero(t, s.order.Len())
}

func TestHoldNearACaller(t *testing.T) {
	caller := func(n byte) trace.SpanContext {
		return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{n}, SpanID: trace.SpanID{n}})
	}
	s := newHolds()
	one, two := &hold{name: "a", token: 1, parent: caller(1)}, &hold{name: "a", token: 2, parent: caller(2)}
	s.add(one)
	s.add(two)
	require.Same(t, one, s.near("a", caller(1)))
	require.Same(t, two, s.near("a", caller(2)))
	require.Nil(t, s.near("a", caller(3)))
	require.Nil(t, s.near("b", caller(1)))
	require.Same(t, two, s.near("a", trace.SpanContext{}), "the latest")
}

func TestErrorTypes(t *testing.T) {
	late := &net.OpError{Op: "read", Err: &timeout{}}
	for want, err := range map[string]error{
		"timeout":  &redlock.NodeError{Err: late},
		"network":  fmt.Errorf("dial: %w", syscall.ECONNREFUSED),
		"READONLY": &redlock.NodeError{Node: 1, Err: errors.New("READONLY You can't write")},
		"_OTHER":   errors.New("unexpected reply"),
	} {
		require.Equal(t, want, errorType(err))
	}
	for _, cut := range []error{
		io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, syscall.ECONNRESET, syscall.EPIPE,
		fmt.Errorf("read: %w", io.EOF), &net.OpError{Op: "read", Err: net.ErrClosed},
	} {
		require.Equal(t, "network", errorType(&redlock.NodeError{Err: cut}), cut)
	}
	for _, text := range []string{"", "ok", "K12 x", "THISISNOTACODEBUTATEXT x", "No such"} {
		require.Equal(t, "_OTHER", errorType(errors.New(text)), text)
	}
}

type timeout struct{}

func (*timeout) Error() string { return "late" }
func (*timeout) Timeout() bool { return true }
