package demo

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"time"
)

//go:embed page.html
var pageSource string

var pageTemplate = template.Must(template.New("page").Parse(pageSource))

// detailWindow is short enough to see each holder.
const detailWindow = 80 * time.Millisecond

type pageData struct {
	Report   Report
	Safe     bool
	Verdict  string
	Overview template.HTML
	Details  []detail
	Events   []pageEvent
	Names    []string // of clients
	Dropped  int
}

type detail struct {
	Title string
	Chart template.HTML
}

type pageEvent struct{ At, Text string }

// write makes a page that needs nothing but itself.
func (t *timeline) write(w io.Writer, r Report) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := pageData{Report: r, Safe: r.Safe(), Dropped: t.dropped}
	d.Verdict = "The lock failed."
	switch {
	case d.Safe:
		d.Verdict = "Never two holders at once; tokens in order; no update lost."
	case r.Grants == 0:
		d.Verdict = "Nobody got the lock: nothing was checked."
	}
	end := time.Duration(r.Seconds * float64(time.Second))
	d.Overview = template.HTML(t.overview(end)) // chart escapes
	for _, e := range t.events {
		d.Events = append(d.Events, pageEvent{fmt.Sprintf("%.2f s", e.at.Seconds()), e.text})
	}
	for i := range r.Clients {
		d.Names = append(d.Names, fmt.Sprintf("client %d", i+1))
	}
	holds := t.holds()
	for _, look := range t.looks(holds) {
		d.Details = append(d.Details, detail{look.title, template.HTML(t.detail(look.from, look.to))}) // as above
	}
	return pageTemplate.Execute(w, d)
}

func (t *timeline) overview(end time.Duration) string {
	c := newChart(0, end)
	t.faultLanes(c, end)
	holds := t.holds()
	for worker := range clientCount * workersPerClient {
		y := c.lane(workerName(worker), "lane")
		c.shares(y, "waiting", t.of(worker, false))
		c.shares(y, "held", t.of(worker, true))
	}
	y := c.lane("the lock", "lane")
	c.shares(y, "held", holds)
	c.overlapBars(y, holds)
	for _, e := range t.events {
		c.mark(e.at)
	}
	return c.svg("Nodes, faults, waiters and holders over the whole run")
}

func (c *chart) overlapBars(y int, holds []span) {
	for _, s := range overlaps(holds) {
		c.bar(y, "overlap", s.from, s.to, "two holders at once")
	}
}

func (t *timeline) faultLanes(c *chart, end time.Duration) {
	faults := t.faults(end)
	for node := range nodeCount + 1 {
		name := fmt.Sprintf("node %d", node+1)
		if node == networkLane {
			name = "network"
		}
		y := c.lane(name, "up")
		for _, f := range faults {
			if f.node == node {
				c.bar(y, "fault "+f.state, f.from, f.to, fmt.Sprintf("%s: %s from %.3f s to %.3f s", name, f.state, f.from.Seconds(), f.to.Seconds()))
			}
		}
	}
}

func (t *timeline) of(worker int, held bool) (out []span) {
	for _, s := range t.spans {
		if s.worker == worker && s.held == held {
			out = append(out, s)
		}
	}
	return out
}

type look struct {
	title    string
	from, to time.Duration
}

// looks are the moments worth a closer look: a quiet one, a fault, and the longest
// time that nobody held the lock.
func (t *timeline) looks(holds []span) []look {
	if len(holds) == 0 {
		return nil
	}
	around := func(title string, at time.Duration) look {
		from := max(0, at-detailWindow/4)
		return look{fmt.Sprintf("%s (%.3f s)", title, at.Seconds()), from, from + detailWindow}
	}
	out := []look{around("From hand to hand, all nodes up", holds[min(len(holds)-1, 20)].from)}
	for _, c := range t.changes {
		if c.node == networkLane && c.state == splitState {
			out = append(out, around("The network splits", c.at))
			break
		}
	}
	if from, to := longestGap(holds); to > from {
		margin := max((to-from)/2, detailWindow/4)
		out = append(out, look{
			fmt.Sprintf("The longest time without a holder, %.1f ms (%.3f s)", (to-from).Seconds()*1e3, from.Seconds()),
			max(0, from-margin), to + margin,
		})
	}
	return out
}

func (t *timeline) detail(from, to time.Duration) string {
	c := newChart(from, to)
	t.faultLanes(c, to)
	for worker := range clientCount * workersPerClient {
		name := workerName(worker)
		y := c.lane(name, "lane")
		for _, s := range t.spans {
			if s.worker != worker {
				continue
			}
			length := (s.to - s.from).Seconds() * 1e3
			if s.held {
				c.bar(y, "held", s.from, s.to, fmt.Sprintf("%s holds it with token %d for %.2f ms", name, s.token, length))
			} else {
				c.bar(y, "waiting", s.from, s.to, fmt.Sprintf("%s waits for %.2f ms", name, length))
			}
		}
	}
	for _, e := range t.events {
		c.mark(e.at)
	}
	return c.svg("Nodes, faults, waiters and holders, closer")
}
