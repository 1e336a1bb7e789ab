// Package testutil starts real redis-server processes, puts a faulty network in
// front of them and checks that nothing is left behind.
//
// Everything works without a *testing.T, so that benchmarks and the demo can use
// it too; functions that take a testing.TB are thin layers that fail the test and
// clean up at its end. All traffic stays on 127.0.0.1.
package testutil
