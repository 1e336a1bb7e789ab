package testutil

import (
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRequestLen(t *testing.T) {
	big := "*2\r\n$4\r\nECHO\r\n$100000\r\n" + strings.Repeat("\r\n*$", 25000) + "\r\n"
	for _, whole := range []string{
		"PING\r\n", "*1\r\n$4\r\nPING\r\n", "*3\r\n$3\r\nSET\r\n$0\r\n\r\n$4\r\na\r\nb\r\n", "*0\r\n", big,
	} {
		require.Equal(t, len(whole), requestLen([]byte(whole)))
		require.Equal(t, len(whole), requestLen([]byte(whole+"*1\r\n")), "more follows")
		for _, cut := range []int{1, len(whole) / 2, len(whole) - 1} {
			require.Zero(t, requestLen([]byte(whole[:cut])), "%.20q cut at %d", whole, cut)
		}
	}
	for _, foreign := range []string{"*x\r\n", "*1\r\n+OK\r\n", "*1\r\n$-1\r\n", "*1\r\n$9999999999\r\nx"} {
		require.Equal(t, len(foreign), requestLen([]byte(foreign)), "%q", foreign)
	}
}

func FuzzRequestLen(f *testing.F) {
	f.Add([]byte("*2\r\n$3\r\nGET\r\n$1\r\nk\r\nPING\r\n"))
	f.Fuzz(func(t *testing.T, buf []byte) {
		n := requestLen(buf)
		if n < 0 || n > len(buf) {
			t.Fatalf("%d of %d bytes", n, len(buf))
		}
	})
}

func TestLaunchNoticesTakenPort(t *testing.T) {
	port, err := reservePort()
	require.NoError(t, err)
	bin, err := findServer()
	require.NoError(t, err)
	s := &Server{bin: bin, dir: t.TempDir(), port: port}
	l, err := net.Listen("tcp4", s.Addr())
	require.NoError(t, err)
	require.ErrorIs(t, s.launch(), errPortTaken)
	require.NoError(t, l.Close())
	require.NoError(t, s.launch())
	require.NoError(t, s.Close())
}

// The port may be another server's, which answers just as well.
func TestLaunchNoticesOtherServer(t *testing.T) {
	other := StartRedis(t)
	s := &Server{bin: other.bin, dir: t.TempDir(), port: other.port}
	require.ErrorIs(t, s.launch(), errPortTaken)
	require.NotZero(t, other.Pid())
	other.MustDo(t, "PING")
}

func TestReservedPortsDiffer(t *testing.T) {
	seen := map[int]bool{}
	for range 50 {
		port, err := reservePort()
		require.NoError(t, err)
		require.False(t, seen[port])
		seen[port] = true
		defer releasePort(port)
	}
}
