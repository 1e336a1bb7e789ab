package main

import (
	"context"
	"fmt"
	"time"
)

// watch shows the locks until ctx ends, which is how a watch is meant to end.
func (c *statusCommand) watch(ctx context.Context, s streams, service *service) error {
	ticker := time.NewTicker(c.Interval)
	defer ticker.Stop()
	show := c.printChanges(s)
	if repaints(s.out) && !c.JSON {
		show = repaint(s)
	}
	for {
		looks := look(ctx, service, c.Names)
		if ctx.Err() == nil {
			if err := show(looks); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return endedBy(ctx)
		case <-ticker.C:
		}
	}
}

func repaint(s streams) func([]sight) error {
	block := blockOn(s.out)
	return func(looks []sight) error {
		lines := []string{time.Now().Format(time.TimeOnly)}
		for _, l := range looks {
			lines = append(lines, l.lines()...)
		}
		block.Paint(lines)
		return nil
	}
}

// printChanges prints a line for a lock when anything but its remaining time is
// other than before.
func (c *statusCommand) printChanges(s streams) func([]sight) error {
	last := map[string]string{}
	return func(looks []sight) error {
		for _, l := range looks {
			now := l.line()
			if last[l.Name] == now {
				continue
			}
			last[l.Name] = now
			var err error
			if c.JSON {
				err = l.json(s.out)
			} else {
				_, err = fmt.Fprintln(s.out, time.Now().Format(time.TimeOnly), now)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// line is the lock in one line, without what changes at each look.
func (l sight) line() string {
	text := fmt.Sprintf("%s %s", shown(l.Name), l.state())
	if l.Held {
		text += fmt.Sprintf(" holder=%s token=%d", shown(holder(l.Value)), l.Token)
	}
	text += fmt.Sprintf(" votes=%d/%d waiters=%d", l.votes(), len(l.Nodes), l.Waiters)
	if l.err != nil {
		text += " error: " + shown(errorText(l.err))
	}
	return text
}
