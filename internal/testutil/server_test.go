package testutil_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock/internal/testutil"
)

func TestServerAnswersUntilStopped(t *testing.T) {
	s := testutil.StartRedis(t)
	s.MustDo(t, "SET", "k", "v")
	keys, err := s.Keys()
	require.NoError(t, err)
	require.Equal(t, []string{"k"}, keys)
	require.NoError(t, s.Stop())
	_, err = s.Do("PING")
	require.Error(t, err)
	require.Zero(t, s.Pid())
}
