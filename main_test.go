package redlock_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/quorumlock/redlock/internal/testutil"
)

// childMode names the part that this binary plays when a test starts it again as
// a process of its own.
const childMode = "REDLOCK_TEST_CHILD"

var childModes = map[string]func() error{
	"contend": contendChild,
	"unlock":  unlockChild,
	"close":   closeChild,
}

func TestMain(m *testing.M) {
	if mode := os.Getenv(childMode); mode != "" {
		play, ok := childModes[mode]
		if !ok {
			fmt.Fprintf(os.Stderr, "no part %q\n", mode)
			os.Exit(2)
		}
		if err := play(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(testutil.Main(m))
}
