package redlockotel_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

func collect(t *testing.T, b *bench) []metricdata.Metrics {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, b.reader.Collect(context.Background(), &all))
	require.LessOrEqual(t, len(all.ScopeMetrics), 1)
	if len(all.ScopeMetrics) == 0 {
		return nil
	}
	return all.ScopeMetrics[0].Metrics
}

// measured are the metrics that have points.
func measured(t *testing.T, b *bench) (names []string) {
	t.Helper()
	for _, m := range collect(t, b) {
		names = append(names, m.Name)
	}
	return names
}

// points are the counts of a counter or histogram, by their attributes.
func points(t *testing.T, b *bench, name string) map[string]int64 {
	t.Helper()
	counts := map[string]int64{}
	for _, m := range collect(t, b) {
		if m.Name != name {
			continue
		}
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			require.True(t, data.IsMonotonic)
			require.Regexp(t, `^\{[a-z]+\}$`, m.Unit, name)
			for _, p := range data.DataPoints {
				counts[label(p.Attributes)] += p.Value
			}
		case metricdata.Histogram[float64]:
			require.Equal(t, "s", m.Unit, name)
			for _, p := range data.DataPoints {
				counts[label(p.Attributes)] += int64(p.Count)
			}
		default:
			t.Fatalf("%s is a %T", name, data)
		}
		require.NotEmpty(t, m.Description)
	}
	return counts
}

func label(s attribute.Set) string { return strings.Join(texts(s.ToSlice()), " ") }

func requireCount(t *testing.T, b *bench, name string, want int64) {
	t.Helper()
	var sum int64
	for _, n := range points(t, b, name) {
		sum += n
	}
	require.Equal(t, want, sum, name)
}
