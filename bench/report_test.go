package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestStatistics(t *testing.T) {
	require.InDelta(t, 2, median([]float64{3, 1, 2}), 0)
	require.InDelta(t, 2.5, median([]float64{4, 1, 2, 3}), 0)
	require.InDelta(t, 4.6, quantile([]float64{1, 2, 3, 4, 5}, 0.9), 1e-9)
	require.InDelta(t, 5, quantile([]float64{5, 1}, 1), 0)
	require.True(t, math.IsNaN(median(nil)))
	require.True(t, math.IsNaN(mean(nil)))
	require.InDelta(t, 2, mean([]float64{1, 3}), 0)

	// A machine that became half as fast in the second run: the ratio stays.
	require.Equal(t, []float64{2, 2}, ratios([]float64{200, 100}, []float64{100, 50}))
	require.Equal(t, []float64{3}, ratios([]float64{5, 6}, []float64{0, 2}))

	v := []float64{3, 1, 2}
	median(v)
	require.Equal(t, []float64{3, 1, 2}, v, "the runs keep their order")
}

func TestFormat(t *testing.T) {
	for want, c := range map[string]struct {
		v      cell
		digits int
	}{
		"1,234,568":  {v: cell{Runs: []float64{1234567.6}}},
		"123":        {v: cell{Runs: []float64{123}}},
		"0.80":       {v: cell{Runs: []float64{0.8}}, digits: 2},
		"over 3,000": {v: cell{Runs: []float64{3000, 3000, 1}, Limit: 3000}, digits: 2},
		"1.00":       {v: cell{Runs: []float64{3000, 1, 1}, Limit: 3000}, digits: 2},
		"–":          {},
		"−12":        {v: cell{Runs: []float64{-12}}},
		"0":          {v: cell{Runs: []float64{-0.2}}},
	} {
		require.Equal(t, want, format(column{Digits: c.digits}, c.v))
	}
}

// sample report with all that the chart can be asked for.
func sampleReport() *report {
	r := &report{
		Machine: "linux/amd64, 2 cores", Server: "redis-server 7.0", Modules: []string{"a/b v1.0.0"}, Runs: 3, Length: "2s",
		Note: "bars & <letters>",
	}
	many := &result{
		Name: "sequential", Title: strings.Repeat("a long title with <b> & such ", 5), Group: "client",
		Columns: throughputColumns, Charts: []string{colPairs, colAllocs},
	}
	for _, c := range clients {
		for i, side := range []string{nameRedlock, nameRedsync, nameBare, nameRueidislock} {
			w := many.row(c.name, side)
			w.add(colPairs, float64(10000*i))
			w.add(colPairs, 54321)
			w.add(colAllocs, 12)
		}
	}
	many.check(false, "too slow")
	few := &result{
		Name: "badnode-3", Title: "One node", Note: "Over redigo.", Columns: latencyColumns, Charts: []string{colLock99},
	}
	few.row("", nameRedlock).add(colLock99, 0.5)
	few.row("", nameRedsync).Cells[colLock99] = cell{Runs: []float64{3000}, Limit: 3000}
	few.row("", nameRedislock)
	r.Results = []*result{many, few}
	return r
}

func TestReportSurvivesItsFile(t *testing.T) {
	r := sampleReport()
	dir := t.TempDir()
	path := filepath.Join(dir, "deep", "bench.json")
	require.NoError(t, r.writeTo(path))
	again, err := readReport(path)
	require.NoError(t, err)
	require.Equal(t, r, again)

	// -from draws the same without measuring.
	svg := filepath.Join(dir, "bench.svg")
	var out, progress bytes.Buffer
	require.NoError(t, run([]string{"-from", path, "-svg", svg}, tiny, nil, &out, &progress))
	require.Equal(t, markdown(r), out.String())
	drawn, err := os.ReadFile(svg)
	require.NoError(t, err)
	require.Equal(t, chart(r), string(drawn))

	_, err = readReport(filepath.Join(dir, "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
	_, err = readReport(path)
	require.ErrorContains(t, err, path)
}

func TestMarkdown(t *testing.T) {
	text := markdown(sampleReport())
	require.Contains(t, text, "**bars & <letters>**")
	require.Contains(t, text, "| client | | pairs/s | of redsync |")
	require.Contains(t, text, "| redigo | **redlock** | 27,160 | – |")
	require.Contains(t, text, "|  | rueidislock\\* |")
	require.Contains(t, text, "- SHORT too slow")
	require.Contains(t, text, "| | lock p50, ms | lock p99, ms |")
	require.Contains(t, text, "| redsync | – | over 3,000 |")
	require.Contains(t, text, "Over redigo.")
}

func TestRewrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	read := func() string {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		return string(data)
	}
	require.NoError(t, rewrite(path, "one\n"))
	require.Equal(t, "one\n", read())
	page := "# Page\n\n" + markBegin + "\nold\n" + markEnd + "\n\nThe rest.\n"
	require.NoError(t, os.WriteFile(path, []byte(page), 0o600))
	require.NoError(t, rewrite(path, "two\n"))
	want := "# Page\n\n" + markBegin + "\n\ntwo\n\n" + markEnd + "\n\nThe rest.\n"
	require.Equal(t, want, read())
	require.NoError(t, rewrite(path, "two\n"))
	require.Equal(t, want, read(), "written twice is written once")

	broken := "text " + markBegin + " text"
	require.NoError(t, os.WriteFile(path, []byte(broken), 0o600))
	require.Error(t, rewrite(path, "three"))
	require.Equal(t, broken, read(), "what cannot be understood is left alone")
}

func TestChart(t *testing.T) { requireChart(t, sampleReport(), chart(sampleReport())) }

// One server that does a fifth of the work does not make the other bars unreadable.
func TestChartBreaksTheBarOfOneServer(t *testing.T) {
	r := &result{Columns: throughputColumns, Charts: []string{colPairs}}
	r.row("", nameRedlock).add(colPairs, 100)
	r.row("", nameRueidislock).add(colPairs, 1000)
	require.InDelta(t, 125, newPanel(r, r.column(colPairs)).most(), 0)
	require.Contains(t, chart(&report{Results: []*result{r}}), "<path")
	r.row("", nameRedsync).add(colPairs, 900)
	require.InDelta(t, 1000, newPanel(r, r.column(colPairs)).most(), 0)
	require.NotContains(t, chart(&report{Results: []*result{r}}), "<path")
}

// requireChart reads a chart as XML: each scenario is there, ours stands out, and nothing
// leaves the page or lies on something else.
func requireChart(t *testing.T, r *report, drawn string) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(drawn))
	var words []string
	bars, deepest, height := map[string]int{}, 0.0, 0.0
	at := 0.0 // where the panel begins
	where, class := 0.0, ""
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		switch e := token.(type) {
		case xml.CharData:
			word := strings.TrimSpace(string(e))
			words = append(words, word)
			if strings.HasPrefix(class, "bar-text") && where >= labelWidth {
				require.LessOrEqual(t, where+letterWidth*float64(utf8.RuneCountInString(word)), float64(panelWidth), word)
			}
		case xml.StartElement:
			attr := func(name string) string { return attribute(e, name) }
			switch e.Name.Local {
			case "svg":
				height = number(t, attr("height"))
			case "g":
				var x float64
				_, err := fmt.Sscanf(attr("transform"), "translate(%g %g)", &x, &at)
				require.NoError(t, err)
			case "rect":
				if class := attr("class"); class != "page" {
					bars[class+attr("fill")]++
					require.LessOrEqual(t, number(t, attr("width")), float64(panelWidth-labelWidth-valueWidth))
					require.GreaterOrEqual(t, number(t, attr("width")), leastBar)
				}
			case "text":
				deepest = max(deepest, at+number(t, attr("y")))
				where, class = number(t, attr("x")), attr("class")
			}
		}
	}
	require.Positive(t, height)
	text := strings.Join(words, " ")
	our := 0
	for _, res := range r.Results {
		require.Contains(t, strings.Join(strings.Fields(text), " "), strings.Join(strings.Fields(res.Title), " "))
		for _, c := range res.Charts {
			for _, w := range res.Rows {
				require.True(t, slices.Contains(words, w.Side), "%s has no bar in %s", w.Side, res.Name)
				if w.Side == nameRedlock && w.Cells[c].value() > 0 { // nothing has no length
					our++
				}
			}
		}
	}
	require.Equal(t, our+1, bars["ours"], "with that of the legend")
	require.Contains(t, bars, "url(#hatch)", "one server is marked")
	require.Contains(t, text, r.Note)
	require.Less(t, deepest-at, height)
}

func attribute(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	x, err := strconv.ParseFloat(text, 64)
	require.NoError(t, err)
	return x
}
