package main

import (
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// Sizes of the chart, in pixels.
const (
	svgWidth    = 1080
	svgMargin   = 24
	svgGutter   = 40
	panelWidth  = (svgWidth - 2*svgMargin - svgGutter) / 2
	labelWidth  = 116 // of the names beside the bars
	valueWidth  = 168 // kept free for the figure after the longest bar
	barHeight   = 13
	barStep     = 18
	groupGap    = 7
	groupStep   = 16 // of a group's name
	titleStep   = 17
	panelGap    = 30
	headHeight  = 84
	leastBar    = 1.5
	footHeight  = 30
	titleChars  = 68
	letterWidth = 5.7 // of a letter beside a bar
)

// A panel is one measure of one scenario.
type panel struct {
	result *result
	column column
	title  []string
	height float64
}

// chart draws the report: a panel for each scenario, a bar for each side.
func chart(r *report) string {
	var panels []*panel
	for _, res := range r.Results {
		for _, name := range res.Charts {
			panels = append(panels, newPanel(res, res.column(name)))
		}
	}
	var body strings.Builder
	heights := [2]float64{headHeight, headHeight}
	for _, p := range panels {
		at := 0
		if heights[1] < heights[0] {
			at = 1
		}
		x := float64(svgMargin + at*(panelWidth+svgGutter))
		fmt.Fprintf(&body, "<g transform=\"translate(%g %g)\">\n", x, heights[at])
		p.draw(&body)
		body.WriteString("</g>\n")
		heights[at] += p.height + panelGap
	}
	height := math.Max(heights[0], heights[1]) + footHeight
	var out strings.Builder
	fmt.Fprintf(&out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %g\" width=\"%d\" height=\"%g\" role=\"img\" aria-labelledby=\"title\">\n",
		svgWidth, height, svgWidth, height)
	out.WriteString("<title id=\"title\">redlock beside other libraries</title>\n")
	out.WriteString(svgStyle)
	fmt.Fprintf(&out, "<rect class=\"page\" width=\"%d\" height=\"%g\"/>\n", svgWidth, height)
	drawHead(&out, r)
	out.WriteString(body.String())
	drawText(&out, "small", svgMargin, height-svgMargin, "start",
		fmt.Sprintf("%s, %s. Medians of %d interleaved runs of %s for each side. A broken bar is longer than drawn.", r.Server, r.Machine, r.Runs, r.Length))
	out.WriteString("</svg>\n")
	return out.String()
}

const svgStyle = `<style>
text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; fill: #1f2328 }
.title { font-weight: 600; font-size: 13px }
.heading { font-weight: 600; font-size: 18px }
.small, .group { font-size: 11px; fill: #59636e }
.bar-text { font-size: 11px }
.note { font-weight: 600; fill: #b35900 }
.strong { font-weight: 600 }
.page { fill: #ffffff }
.axis { stroke: #d1d9e0 }
.ours { fill: #0969da }
.peer { fill: #8c959f }
.bare { fill: none; stroke: #8c959f }
.stripe { stroke: #8c959f; stroke-width: 3 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.small, .group { fill: #9198a1 }
.note { fill: #f0a04b }
.page { fill: #0d1117 }
.axis { stroke: #3d444d }
.ours { fill: #4493f8 }
.peer { fill: #7d8590 }
.bare { stroke: #7d8590 }
.stripe { stroke: #7d8590 }
}
</style>
<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><line class="stripe" x1="1.5" y1="0" x2="1.5" y2="6"/></pattern></defs>
`

func drawHead(b *strings.Builder, r *report) {
	drawText(b, "heading", svgMargin, 32, "start", "redlock beside other libraries")
	x := float64(svgMargin)
	for _, key := range []struct{ kind, text string }{
		{"ours", "redlock"},
		{"peer", "another library"},
		{"bare", "the same scripts sent by hand"},
		{"one", "another library, on one server"},
	} {
		drawBar(b, key.kind, x, 46, 24)
		drawText(b, "small", x+30, 46+barHeight-2, "start", key.text)
		x += 30 + letterWidth*float64(utf8.RuneCountInString(key.text)) + 28
	}
	if r.Note != "" {
		drawText(b, "note", svgWidth-svgMargin, 32, "end", r.Note)
	}
}

func newPanel(r *result, c column) *panel {
	p := &panel{result: r, column: c, title: wrap(r.Title, titleChars)}
	p.height = float64(titleStep * (len(p.title) + 1))
	group := ""
	if r.Group == "" {
		p.height += groupGap
	}
	for i, w := range r.Rows {
		if r.Group != "" && (i == 0 || w.Group != group) {
			group = w.Group
			p.height += groupStep + groupGap
		}
		p.height += barStep
	}
	return p
}

func (p *panel) subtitle() string {
	name := p.column.title()
	if p.column.Better != "" {
		name += " (" + p.column.Better + " is better)"
	}
	return name
}

func (p *panel) draw(b *strings.Builder) {
	y := 0.0
	for _, line := range p.title {
		y += titleStep
		drawText(b, "title", 0, y-4, "start", line)
	}
	y += titleStep
	drawText(b, "small", 0, y-4, "start", p.subtitle())
	if p.result.Group == "" {
		y += groupGap
	}
	most, group := p.most(), ""
	for i, w := range p.result.Rows {
		if p.result.Group != "" && (i == 0 || w.Group != group) {
			group = w.Group
			y += groupGap + groupStep
			drawText(b, "group", 0, y-4, "start", group)
			fmt.Fprintf(b, "<line class=\"axis\" x1=\"%d\" x2=\"%d\" y1=\"%g\" y2=\"%g\"/>\n", labelWidth, panelWidth, y-8, y-8)
		}
		p.drawRow(b, w, y+2.5, most)
		y += barStep
	}
}

// most is the figure of a bar of full length. Where more is better, one server that does a
// fraction of the work would dwarf the rest, and its bar is broken.
func (p *panel) most() float64 {
	most, all := 0.0, 0.0
	for _, w := range p.result.Rows {
		v := w.Cells[p.column.Name].value()
		if v > all { // NaN is not
			all = v
		}
		if v > most && !w.OneServer {
			most = v
		}
	}
	if p.column.Better != "higher" || most == 0 {
		return all
	}
	return math.Min(all, most*1.25)
}

// kindOf is how a side is drawn.
func kindOf(w *row) string {
	switch {
	case w.Side == nameRedlock:
		return "ours"
	case w.OneServer:
		return "one"
	case w.Side == nameBare:
		return "bare"
	}
	return "peer"
}

func (p *panel) drawRow(b *strings.Builder, w *row, y, most float64) {
	class, text := "bar-text", y+barHeight-2.5
	if w.Side == nameRedlock {
		class += " strong"
	}
	drawText(b, class, labelWidth-8, text, "end", w.Side)
	v := w.Cells[p.column.Name]
	length := 0.0
	if x := v.value(); !math.IsNaN(x) && x > 0 && most > 0 {
		length = math.Max(leastBar, math.Min(1, x/most)*float64(panelWidth-labelWidth-valueWidth))
		drawBar(b, kindOf(w), labelWidth, y, length)
		if x > most {
			drawBreak(b, labelWidth+length-24, y)
		}
	}
	drawText(b, class, labelWidth+length+6, text, "start", p.label(w, v))
}

// label is what stands behind a bar.
func (p *panel) label(w *row, v cell) string {
	text := format(p.column, v)
	if math.IsNaN(v.value()) {
		text = "none"
	} else if p.column.Unit != "" {
		text += " " + p.column.Unit
	}
	if w.OneServer {
		text += ", one server"
	}
	return text
}

func drawBar(b *strings.Builder, kind string, x, y, length float64) {
	if kind == "one" {
		fmt.Fprintf(b, "<rect fill=\"url(#hatch)\" x=\"%g\" y=\"%g\" width=\"%.1f\" height=\"%d\"/>\n", x, y, length, barHeight)
		kind = "bare" // its outline
	}
	fmt.Fprintf(b, "<rect class=\"%s\" x=\"%g\" y=\"%g\" width=\"%.1f\" height=\"%d\"/>\n", kind, x, y, length, barHeight)
}

// drawBreak says that a bar is longer than it is drawn.
func drawBreak(b *strings.Builder, x, y float64) {
	fmt.Fprintf(b, "<path class=\"page\" d=\"M%g %gl5 %dh5l-5 -%dz\"/>\n", x, y-1, barHeight+2, barHeight+2)
}

func drawText(b *strings.Builder, class string, x, y float64, anchor, text string) {
	fmt.Fprintf(b, "<text class=\"%s\" x=\"%.1f\" y=\"%g\" text-anchor=\"%s\">", class, x, y, anchor)
	_ = xml.EscapeText(b, []byte(text)) // to a Builder, which takes all
	b.WriteString("</text>\n")
}

// wrap breaks a text into lines of at most so many letters.
func wrap(text string, letters int) []string {
	lines := []string{""}
	for word := range strings.FieldsSeq(text) {
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case utf8.RuneCountInString(*last)+1+utf8.RuneCountInString(word) <= letters:
			*last += " " + word
		default:
			lines = append(lines, word)
		}
	}
	return slices.Clip(lines)
}
