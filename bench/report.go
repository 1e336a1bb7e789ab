package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/testutil"
)

// report is what one run of the command found, and on what.
type report struct {
	Machine string    `json:"machine"`
	Server  string    `json:"server"`
	Modules []string  `json:"modules"` // what was compared, with versions
	Runs    int       `json:"runs"`
	Length  string    `json:"length"` // of each side in each run
	Note    string    `json:"note,omitempty"`
	Results []*result `json:"results"`
}

// result is one scenario.
type result struct {
	Name    string   `json:"name"`
	Title   string   `json:"title"`
	Note    string   `json:"note,omitempty"`
	Group   string   `json:"group,omitempty"` // what rows are grouped by
	Columns []column `json:"columns"`
	Charts  []string `json:"charts"` // names of the columns that the chart shows
	Rows    []*row   `json:"rows"`
	Checks  []check  `json:"checks,omitempty"`
}

// column is one measure.
type column struct {
	Name   string `json:"name"`
	Unit   string `json:"unit,omitempty"`
	Digits int    `json:"digits,omitempty"`
	Better string `json:"better,omitempty"` // higher, lower or nothing
}

// title is the name with its unit.
func (c column) title() string {
	if c.Unit == "" || strings.Contains(c.Name, c.Unit) {
		return c.Name
	}
	return c.Name + ", " + c.Unit
}

// row is one side, in one group.
type row struct {
	Group     string          `json:"group,omitempty"`
	Side      string          `json:"side"`
	OneServer bool            `json:"oneServer,omitempty"`
	Cells     map[string]cell `json:"cells"` // by column; a side may lack some
}

// cell is a measure of one side.
type cell struct {
	Runs  []float64 `json:"runs"`
	Limit float64   `json:"limit,omitempty"` // for more than that nobody waited
}

func (c cell) value() float64 { return median(c.Runs) }

// over reports whether the value is more than what is known of it.
func (c cell) over() bool { return c.Limit > 0 && c.value() >= c.Limit }

// check is whether a figure reached its target.
type check struct {
	Met  bool   `json:"met"`
	Text string `json:"text"`
}

// row finds a row or makes it.
func (r *result) row(group, side string) *row {
	for _, w := range r.Rows {
		if w.Group == group && w.Side == side {
			return w
		}
	}
	w := &row{Group: group, Side: side, OneServer: slices.Contains(oneServerSides, side), Cells: map[string]cell{}}
	r.Rows = append(r.Rows, w)
	return w
}

// add appends the figure of one run.
func (w *row) add(column string, v float64) {
	c := w.Cells[column]
	c.Runs = append(c.Runs, v)
	w.Cells[column] = c
}

// value is the median of a side's runs; NaN where there are none.
func (r *result) value(group, side, column string) float64 {
	for _, w := range r.Rows {
		if w.Group == group && w.Side == side {
			return w.Cells[column].value()
		}
	}
	return median(nil)
}

// runs are the figures of a side, run by run.
func (r *result) runs(group, side, column string) []float64 {
	for _, w := range r.Rows {
		if w.Group == group && w.Side == side {
			return w.Cells[column].Runs
		}
	}
	return nil
}

func (r *result) check(met bool, format string, args ...any) {
	r.Checks = append(r.Checks, check{met, fmt.Sprintf(format, args...)})
}

func (r *result) column(name string) column {
	for _, c := range r.Columns {
		if c.Name == name {
			return c
		}
	}
	return column{Name: name}
}

// peers are the modules whose versions the report names.
var peers = []string{
	"github.com/go-redsync/redsync/v4",
	"github.com/bsm/redislock",
	"github.com/redis/rueidis", // rueidislock too
	"github.com/gomodule/redigo",
	"github.com/redis/go-redis/v9",
	"github.com/valkey-io/valkey-go",
}

func newReport(o *options) (*report, error) {
	s, err := testutil.Start()
	if err != nil {
		return nil, err
	}
	defer s.Close() //nolint:errcheck // it only told its version
	info, err := redis.String(s.Do("INFO", "server"))
	if err != nil {
		return nil, err
	}
	return &report{
		Machine: fmt.Sprintf("%s/%s, %d cores, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version()),
		Server:  serverVersion(info),
		Modules: versions(peers...),
		Runs:    o.runs,
		Length:  o.duration.String(),
	}, nil
}

// serverVersion reads INFO. Valkey reports the Redis version it is compatible
// with and its own beside it.
func serverVersion(info string) string {
	fields := infoFields(info)
	if name := fields["server_name"]; name != "" && name != "redis" {
		return name + "-server " + fields[name+"_version"]
	}
	return "redis-server " + fields["redis_version"]
}

// infoFields parses the reply to INFO.
func infoFields(info string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[key] = value
		}
	}
	return fields
}

func versions(modules ...string) []string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	var found []string
	for _, want := range modules {
		for _, dep := range info.Deps {
			if dep.Path == want {
				found = append(found, strings.TrimPrefix(dep.Path, "github.com/")+" "+dep.Version)
			}
		}
	}
	return found
}

func readReport(path string) (*report, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var r report
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &r, nil
}

func (r *report) writeTo(path string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { // figures are no secret
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644) // nor here
}
