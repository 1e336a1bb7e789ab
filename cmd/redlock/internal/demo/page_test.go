package demo

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The page shows the very numbers of the report, and needs nothing from elsewhere.
func TestPageOfARun(t *testing.T) {
	var page bytes.Buffer
	report, err := Run(t.Context(), Config{Duration: MinDuration, View: &viewFunc{progress: func(Snapshot) {}}, Page: &page})
	require.NoError(t, err)
	require.True(t, report.Safe(), "%+v", report)
	html := page.String()

	_, embedded, found := strings.Cut(html, `<script type="application/json" id="report">`)
	require.True(t, found)
	embedded, _, _ = strings.Cut(embedded, "</script>")
	var same Report
	require.NoError(t, json.Unmarshal([]byte(embedded), &same))
	assert.Equal(t, report, same)
	number := func(id string) string {
		m := regexp.MustCompile(`id="` + id + `">([^<]*)<`).FindStringSubmatch(html)
		require.NotNil(t, m, id)
		return m[1]
	}
	for id, value := range map[string]any{"grants": report.Grants, "overlaps": 0, "faults": report.Faults, "seconds": report.Seconds} {
		text, err := json.Marshal(value)
		require.NoError(t, err)
		assert.Equal(t, string(text), number(id), id)
	}
	assert.NotRegexp(t, `https?://|\bsrc=|\bhref=|@import|url\(`, html)
	for _, state := range []string{"killed", "hung", "stopped", "split"} {
		assert.Contains(t, html, `<rect class="fault `+state+`"`)
	}
	assert.Contains(t, html, "is back, empty")
	for _, svg := range regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(html, -1) {
		d := xml.NewDecoder(strings.NewReader(svg))
		for err = nil; err == nil; {
			_, err = d.Token()
		}
		require.ErrorIs(t, err, io.EOF)
	}
}

func TestTimeline(t *testing.T) {
	tl := newTimeline()
	at := func(ms int) time.Time { return tl.started.Add(time.Duration(ms) * time.Millisecond) }
	tl.add(0, true, 1, at(0), at(10))
	tl.add(1, false, 0, at(5), at(30))
	tl.add(1, true, 3, at(30), at(50))
	tl.add(2, true, 2, at(12), at(20))
	holds := tl.holds()
	require.Len(t, holds, 3)
	assert.EqualValues(t, 2, holds[1].token)
	assert.Empty(t, overlaps(holds))
	from, to := longestGap(holds)
	assert.Equal(t, []time.Duration{20e6, 30e6}, []time.Duration{from, to})

	tl.add(3, true, 4, at(40), at(60))
	both := overlaps(tl.holds())
	require.Len(t, both, 1)
	assert.Equal(t, []time.Duration{40e6, 50e6}, []time.Duration{both[0].from, both[0].to})
	assert.Contains(t, tl.overview(60*time.Millisecond), `class="overlap"`)

	tl.changes = []change{{1, 0, "hung"}, {2, 1, "killed"}, {3, 0, ""}, {4, 0, "stopped"}, {5, 0, "hung"}}
	assert.Equal(t, []fault{{0, "hung", 1, 3}, {1, "killed", 2, 9}, {0, "stopped", 4, 5}, {0, "hung", 5, 9}}, tl.faults(9))

	var none *timeline
	none.add(0, true, 1, at(0), at(1))
	none.change(0, "hung")
	none.event(0, "nothing")
}

func TestPageWithoutGrants(t *testing.T) {
	var page bytes.Buffer
	require.NoError(t, newTimeline().write(&page, Report{}))
	assert.Contains(t, page.String(), "nothing was checked")
	require.ErrorIs(t, newTimeline().write(full{}, Report{}), errFull)
}

var errFull = errors.New("full")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }
