package testutil_test

import (
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/quorumlock/redlock/internal/testutil"
)

// childMode makes the test binary a process that only keeps a server.
const childMode = "REDLOCK_TESTUTIL_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childMode) != "" {
		keepServer()
		return
	}
	os.Exit(testutil.Main(m))
}

func keepServer() {
	s, err := testutil.Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(s.Addr(), s.Dir())
	_, _ = io.Copy(io.Discard, os.Stdin)
	// Not closed on purpose: the server must end all the same.
}
