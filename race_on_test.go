//go:build race

package redlock_test

// The race detector has memory of its own for each object.
const raceEnabled = true
