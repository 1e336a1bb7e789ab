package main

import (
	"errors"
	"os"
	"os/exec"
	"time"
)

// relayed: the console itself sends Ctrl-C to the command, too.
var relayed = []os.Signal{os.Interrupt}

// relayedOnly: there are none.
var relayedOnly []os.Signal

func heedStop(os.Signal) {}

func endsWait(os.Signal) (number int, ends bool) { return 2, true }

// child is the command. Windows has no process groups that signals reach.
type child struct {
	process *os.Process
	ended   chan int
	stopped chan os.Signal // never
}

func startChild(cmd *exec.Cmd) (*child, error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &child{process: cmd.Process, ended: make(chan int, 1)}
	go func() {
		err := cmd.Wait()
		var exit *exec.ExitError
		switch {
		case err == nil:
			c.ended <- 0
		case errors.As(err, &exit):
			c.ended <- exit.ExitCode()
		default:
			c.ended <- exitFailure
		}
	}()
	return c, nil
}

func (c *child) relay(os.Signal) {}

func (c *child) suspend(os.Signal) {}

// end has no gentler way than to kill.
func (c *child) end(time.Duration) {
	_ = c.process.Kill() // fails only when it has ended
	<-c.ended
}

func (c *child) close() {}
