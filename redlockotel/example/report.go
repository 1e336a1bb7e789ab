package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// report writes the span trees of some calls and the metrics page.
func report(spans tracetest.SpanStubs, page string, buckets bool, out io.Writer) error {
	slices.SortStableFunc(spans, func(a, b tracetest.SpanStub) int { return a.StartTime.Compare(b.StartTime) })
	below := map[string][]tracetest.SpanStub{}
	for _, s := range spans {
		below[parentOf(s)] = append(below[parentOf(s)], s)
	}
	for _, root := range chosen(below) {
		fmt.Fprintf(out, "trace of %s\n", root.Name)
		tree(out, root, root.StartTime, below, "")
		fmt.Fprintln(out)
	}
	return metrics(page, buckets, out)
}

func parentOf(s tracetest.SpanStub) string {
	if !s.Parent.IsValid() {
		return ""
	}
	return s.Parent.SpanID().String()
}

// chosen are a checkout that waited little and the other roots.
func chosen(below map[string][]tracetest.SpanStub) (roots []tracetest.SpanStub) {
	waits := func(root tracetest.SpanStub) (n int) {
		for _, s := range below[root.SpanContext.SpanID().String()] {
			for _, wait := range below[s.SpanContext.SpanID().String()] {
				if wait.Name == "redlock.wait" {
					n++
				}
			}
		}
		return n
	}
	var checkouts []tracetest.SpanStub
	for _, root := range below[""] {
		switch {
		case root.Name != "checkout":
			roots = append(roots, root)
		case waits(root) > 0:
			checkouts = append(checkouts, root)
		}
	}
	if len(checkouts) > 0 {
		least := slices.MinFunc(checkouts, func(a, b tracetest.SpanStub) int { return cmp.Compare(waits(a), waits(b)) })
		roots = append([]tracetest.SpanStub{least}, roots...)
	}
	return roots
}

func tree(out io.Writer, s tracetest.SpanStub, from time.Time, below map[string][]tracetest.SpanStub, indent string) {
	fmt.Fprintf(out, "%s%s %s, %s%s\n", indent, s.Name, at(s.StartTime.Sub(from)), lasted(s.EndTime.Sub(s.StartTime)), words(s.Attributes))
	for _, e := range s.Events {
		fmt.Fprintf(out, "%s  * %s %s%s\n", indent, e.Name, at(e.Time.Sub(from)), words(e.Attributes))
	}
	for _, child := range below[s.SpanContext.SpanID().String()] {
		tree(out, child, from, below, indent+"  ")
	}
}

func at(d time.Duration) string { return fmt.Sprintf("+%.1fms", float64(d)/float64(time.Millisecond)) }

func lasted(d time.Duration) string {
	return fmt.Sprintf("%.1fms", float64(d)/float64(time.Millisecond))
}

// words are attributes for the eye.
func words(all []attribute.KeyValue) string {
	var b strings.Builder
	for _, a := range all {
		value := a.Value.String()
		if a.Value.Type() == attribute.FLOAT64 {
			value = fmt.Sprintf("%.4f", a.Value.AsFloat64())
		}
		if strings.Contains(value, " ") {
			value = fmt.Sprintf("%q", value)
		}
		fmt.Fprintf(&b, " %s=%s", strings.TrimPrefix(string(a.Key), "redlock."), value)
	}
	return b.String()
}

// metrics copies the page, as a Prometheus server would get it.
func metrics(page string, buckets bool, out io.Writer) error {
	client := &http.Client{Timeout: 5 * time.Second}
	reply, err := client.Get(page)
	if err != nil {
		return err
	}
	defer reply.Body.Close() //nolint:errcheck // it was read
	if reply.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", page, reply.Status)
	}
	for lines := bufio.NewScanner(reply.Body); ; {
		if !lines.Scan() {
			return lines.Err()
		}
		if buckets || !strings.Contains(lines.Text(), "_bucket{") {
			fmt.Fprintln(out, lines.Text())
		}
	}
}
