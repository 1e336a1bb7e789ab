package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseEndpoint(t *testing.T) {
	for text, want := range map[string]endpoint{
		"redis://10.0.0.1":                {network: "tcp", address: "10.0.0.1:6379"},
		"redis://":                        {network: "tcp", address: "localhost:6379"},
		"redis://[::1]:7000/3":            {network: "tcp", address: "[::1]:7000", db: 3},
		"rediss://h:1/?db=2":              {network: "tcp", address: "h:1", db: 2, tls: true},
		"redis://u:p%40ss%2F@h":           {network: "tcp", address: "h:6379", user: "u", password: "p@ss/"},
		"redis://:pass@h":                 {network: "tcp", address: "h:6379", password: "pass"},
		"redis://pass@h":                  {network: "tcp", address: "h:6379", password: "pass"},
		"unix:///run/redis.sock":          {network: "unix", address: "/run/redis.sock"},
		"unix://u:p@/run/redis.sock?db=4": {network: "unix", address: "/run/redis.sock", user: "u", password: "p", db: 4},
		"unix://run/redis.sock":           {network: "unix", address: "run/redis.sock"},
	} {
		want.dial, want.read, want.writes = defaultDialTimeout, defaultIOTimeout, defaultIOTimeout
		got, err := parseEndpoint(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	got, err := parseEndpoint("redis://h?dial_timeout=1ms&read_timeout=2ms&write_timeout=3ms")
	require.NoError(t, err)
	assert.Equal(t, []time.Duration{1e6, 2e6, 3e6}, []time.Duration{got.dial, got.read, got.writes})
}

func TestParseEndpointErrors(t *testing.T) {
	for _, text := range []string{
		"", "h:6379", "http://s3cret@h", "redis:s3cret", "redis://u:s3cret/@h:6379", "redis://h:s3cret", "redis://u:s3cret%zz@h",
		"redis://h/s3cret", "redis://h/-1", "redis://h?db=s3cret", "redis://h?password=s3cret", "redis://h?dial_timeout=s3cret",
		"redis://h?dial_timeout=-1s", "redis://h#s3cret", "unix://", "unix://?db=1",
		"redis://h?read_timeout=2s;write_timeout=s3cret", "redis://h?db=%zz", "redis://u:s3cret@h?db=%zzs3cret", "redis://h?%zz=s3cret",
		"redis://h?db=1&db=2", "redis://h?read_timeout=1s&read_timeout=1s", "redis://h/1?db=2", "redis://h?db=", "redis://h?db",
	} {
		_, err := parseEndpoint(text)
		require.Error(t, err, text)
		assert.NotContains(t, err.Error(), "s3cret", text)
	}
}

func TestNodesFromVariable(t *testing.T) {
	t.Setenv(nodesVariable, " redis://a,redis://b  redis://c,\n")
	all, err := nodeFlags{}.endpoints(streams{})
	require.NoError(t, err)
	require.Len(t, all, 3)
	assert.Equal(t, "c:6379", all[2].address)
	all, err = nodeFlags{Node: []string{"redis://d"}}.endpoints(streams{})
	require.NoError(t, err)
	assert.Len(t, all, 1, "the flag replaces the variable")
}

func TestWithoutPasswords(t *testing.T) {
	assert.Equal(t, `unexpected "redis://…@h:6379"`, withoutPasswords(`unexpected "redis://u:p@ss@h:6379"`))
	assert.Equal(t, "plain", withoutPasswords("plain"))
}
