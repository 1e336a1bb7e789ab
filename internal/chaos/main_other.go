//go:build !unix

// Command chaos needs signals that suspend processes: it runs on Unix systems only.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "chaos: this system cannot suspend processes")
	os.Exit(2)
}
