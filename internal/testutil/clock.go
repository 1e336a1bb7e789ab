package testutil

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

//go:embed clockshim/clockshim.c
var shimSource []byte

// A Clock is the wall clock of one server; it outlives restarts of the process.
// Its methods may be called from several goroutines.
type Clock struct {
	mu      sync.Mutex
	file    *os.File
	version uint64 // guarded by mu
}

// Set makes the clock show the true time plus offset now, and run at rate times the
// true speed from now on. A Set of an offset alone keeps no former rate: 1 is the
// speed of a good clock.
func (c *Clock) Set(offset time.Duration, rate float64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now().UnixNano()
	line := binary.NativeEndian.AppendUint64(nil, uint64(now))
	line = binary.NativeEndian.AppendUint64(line, uint64(now+int64(offset)))
	line = binary.NativeEndian.AppendUint64(line, math.Float64bits(rate))
	// The reader waits while the version is odd, and reads again when it changed.
	return errors.Join(c.turn(), c.write(line, 8), c.turn())
}

func (c *Clock) turn() error {
	c.version++
	return c.write(binary.NativeEndian.AppendUint64(nil, c.version), 0)
}

func (c *Clock) write(b []byte, at int64) error {
	_, err := c.file.WriteAt(b, at)
	return err
}

// MustSet is Set for a test.
func (c *Clock) MustSet(t testing.TB, offset time.Duration, rate float64) {
	t.Helper()
	if err := c.Set(offset, rate); err != nil {
		t.Fatal(err)
	}
}

// StartRedisWithClock is StartRedis with a wall clock that the test may set; it
// begins with the true time. It needs a C compiler, and Linux: elsewhere the
// test is skipped.
func StartRedisWithClock(t testing.TB, args ...string) (*Server, *Clock) {
	t.Helper()
	bin, err := findServer()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	shim := buildShim(t, dir)
	file, err := os.Create(filepath.Join(dir, "clock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() }) // removed right after
	clock := &Clock{file: file}
	clock.MustSet(t, 0, 1)
	// The script becomes the server, so that the process id stays. Only the server
	// may see the shim: a library for it could break the tools of the shell.
	wrapper := filepath.Join(dir, "server")
	script := fmt.Sprintf("#!/bin/sh\nREDLOCK_CLOCK=%s LD_PRELOAD=%s exec %s \"$@\"\n",
		quoted(file.Name()), quoted(shim), quoted(bin))
	if err := os.WriteFile(wrapper, []byte(script), 0o700); err != nil { // it has to be executable
		t.Fatal(err)
	}
	s, err := startBinary(wrapper, args)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, clock
}

// buildShim compiles the shim into dir.
func buildShim(t testing.TB, dir string) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("clocks can be set on Linux only")
	}
	compiler := "cc"
	if fields := strings.Fields(os.Getenv("CC")); len(fields) > 0 {
		compiler = fields[0]
	}
	if _, err := exec.LookPath(compiler); err != nil {
		t.Fatalf("setting clocks needs a C compiler, as the race detector does: %v", err)
	}
	source, shim := filepath.Join(dir, "clockshim.c"), filepath.Join(dir, "clockshim.so")
	if err := os.WriteFile(source, shimSource, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(compiler, "-shared", "-fPIC", "-O2", "-o", shim, source).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", compiler, err, out)
	}
	return shim
}

func quoted(path string) string { return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'" }
