package doctor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quorumlock/redlock/internal/testutil"
)

func TestClockApart(t *testing.T) {
	wrong, clock := testutil.StartRedisWithClock(t, durable...)
	clock.MustSet(t, 30*time.Second, 1)
	nodes := []Node{nodeAt(t, wrong.Addr())}
	for _, s := range testutil.StartRedisN(t, 4, durable...) {
		nodes = append(nodes, nodeAt(t, s.Addr()))
	}
	r, printed := examine(t, configFor(nodes...))
	f := find(t, r, wrong.Addr(), "clock")
	assert.Equal(t, Bad, f.Verdict, printed)
	assert.Regexp(t, `^(30|29\.9\d*|30\.0\d*)s ahead`, f.Text)
	assert.Equal(t, OK, find(t, r, "", "quorum").Verdict, printed)
}
