package demo

import (
	"fmt"
	"html"
	"strings"
	"time"
)

// Measures of a chart in pixels: names, lanes, and the axis below.
const (
	nameWidth  = 150
	plotWidth  = 1050
	laneHeight = 20
	laneGap    = 5
	axisHeight = 26
)

// chart draws lanes over a window of time, as SVG.
type chart struct {
	from, to time.Duration
	lanes    int
	b        strings.Builder
}

func newChart(from, to time.Duration) *chart { return &chart{from: from, to: max(to, from+1)} }

func (c *chart) x(at time.Duration) float64 {
	at = min(max(at, c.from), c.to)
	return nameWidth + plotWidth*float64(at-c.from)/float64(c.to-c.from)
}

// lane begins a new one below the last, and returns its top.
func (c *chart) lane(name, class string) int {
	y := c.lanes * (laneHeight + laneGap)
	c.lanes++
	fmt.Fprintf(&c.b, `<text class="name" x="%d" y="%d">%s</text>`, nameWidth-8, y+laneHeight-5, html.EscapeString(name))
	fmt.Fprintf(&c.b, `<rect class="%s" x="%d" y="%d" width="%d" height="%d"/>`+"\n", class, nameWidth, y, plotWidth, laneHeight)
	return y
}

// bar is a time in a lane; one that is short is drawn as wide as can be seen.
func (c *chart) bar(y int, class string, from, to time.Duration, title string) {
	if to < c.from || from > c.to {
		return
	}
	left, right := c.x(from), c.x(to)
	fmt.Fprintf(&c.b, `<rect class="%s" x="%.2f" y="%d" width="%.2f" height="%d"><title>%s</title></rect>`+"\n",
		class, left, y, max(right-left, 1), laneHeight, html.EscapeString(title))
}

// shares draws, for each pixel, what part of it was in spans: as the height of a bar.
// A path a lane keeps thousands of spans small.
func (c *chart) shares(y int, class string, spans []span) {
	pixel := float64(c.to-c.from) / plotWidth
	var share [plotWidth]float64
	for _, s := range spans {
		from, to := max(s.from, c.from), min(s.to, c.to)
		for i := int(float64(from-c.from) / pixel); i < plotWidth && to > from; i++ {
			left, right := float64(c.from)+float64(i)*pixel, float64(c.from)+float64(i+1)*pixel
			if left >= float64(to) {
				break
			}
			share[i] += (min(right, float64(to)) - max(left, float64(from))) / pixel
		}
	}
	var path strings.Builder
	for i := 0; i < plotWidth; i++ {
		if share[i] == 0 {
			continue
		}
		height := max(1, int(min(share[i], 1)*laneHeight+0.5))
		fmt.Fprintf(&path, "M%d %dh1v-%dh-1z", nameWidth+i, y+laneHeight, height)
	}
	if path.Len() > 0 {
		fmt.Fprintf(&c.b, `<path class="%s" d="%s"/>`+"\n", class, path.String())
	}
}

// mark is a thin line through all lanes so far.
func (c *chart) mark(at time.Duration) {
	if at < c.from || at > c.to {
		return
	}
	fmt.Fprintf(&c.b, `<line class="mark" x1="%.1f" x2="%.1[1]f" y1="0" y2="%d"/>`+"\n", c.x(at), c.lanes*(laneHeight+laneGap))
}

// svg closes the chart with its axis.
func (c *chart) svg(label string) string {
	height := c.lanes * (laneHeight + laneGap)
	for i := range 11 {
		at := c.from + time.Duration(float64(c.to-c.from)*float64(i)/10)
		fmt.Fprintf(&c.b, `<line class="tick" x1="%.1f" x2="%.1[1]f" y1="%[2]d" y2="%[3]d"/><text class="axis" x="%.1[1]f" y="%[4]d">%[5]s</text>`+"\n",
			c.x(at), height, height+5, height+19, c.axisText(at))
	}
	return fmt.Sprintf(`<svg role="img" aria-label="%s" viewBox="0 0 %d %d" width="%[2]d" height="%[3]d">`,
		html.EscapeString(label), nameWidth+plotWidth+30, height+axisHeight) + "\n" + c.b.String() + "</svg>"
}

func (c *chart) axisText(at time.Duration) string {
	if c.to-c.from < time.Second {
		return fmt.Sprintf("%.3f s", at.Seconds())
	}
	return fmt.Sprintf("%.1f s", at.Seconds())
}
