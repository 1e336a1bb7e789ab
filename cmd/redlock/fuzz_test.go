package main

import (
	"bytes"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

// secret is what must not be seen, wherever in a URL or an argument it stands.
const secret = "s3cretW0rd"

// No text is too odd for a node's URL, and no error quotes any of it.
func FuzzParseEndpoint(f *testing.F) {
	for _, parts := range [][2]string{
		{"redis://u:", "@h:6379/1"},
		{"rediss://", "@h"},
		{"unix://u:", "@/run/redis.sock?db=2"},
		{"redis://u:%zz", "@h"},
		{"redis://h:", ""},
		{"redis://h/", ""},
		{"redis://h?db=", ""},
		{"redis://h?", "=1"},
		{"redis://h?dial_timeout=", ""},
		{"redis://h#", ""},
		{"redis:", ""},
		{"", "://h"},
		{"redis://[", "]:1"},
		{"redis://u:a\x00", "@h"},
		{"redis://u:\n", "@h"},
	} {
		f.Add(parts[0], parts[1])
	}
	f.Fuzz(func(t *testing.T, before, after string) {
		text := before + secret + after
		e, err := parseEndpoint(text)
		if err != nil {
			require.NotContains(t, err.Error(), secret, text)
			return
		}
		require.NotEmpty(t, e.address)
		require.GreaterOrEqual(t, e.db, 0)
		require.Positive(t, min(e.dial, e.read, e.writes))
		u, err := url.Parse(text)
		require.NoError(t, err)
		if name, _ := url.PathUnescape(u.User.String()); u.User != nil && strings.Contains(name, secret) {
			require.NotContains(t, u.Host+u.Path, e.password+secret)
			if !strings.Contains(u.Host+u.Path, secret) {
				require.NotContains(t, e.address, secret, "the address is what errors and observers name")
			}
		}
	})
}

// A list of nodes with a password in one of them: whatever is wrong, the error names its
// place alone.
func FuzzNodesVariable(f *testing.F) {
	for _, s := range []string{"redis://a, redis://b", "redis://a\tredis://a", ",,", "x", "redis://a?x=1", "\x00", "redis://[::1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.ContainsRune(text, 0) {
			t.Skip("no environment holds that")
		}
		t.Setenv(nodesVariable, text+" redis://u:"+secret+"@h")
		all, err := nodeFlags{}.endpoints(streams{})
		if err != nil {
			require.NotContains(t, err.Error(), secret)
			return
		}
		require.Equal(t, secret, all[len(all)-1].password)
		seen := map[string]bool{}
		for _, e := range all {
			require.False(t, seen[e.address], "a node that votes twice: %s", e.address)
			seen[e.address] = true
		}
	})
}

// No arguments make the command line panic, and what is reported of them has no password.
func FuzzArguments(f *testing.F) {
	for _, s := range []string{
		"run --name x --wait -1s -- true", "run --node redis://u:" + secret + "@h", "status redis://u:" + secret + "@h", "break --expiry 1",
		"bench --goroutines 99999999999999999999", "demo --seconds x", "help nothing", "completion", "--node", ":" + secret + "@h", "run --expiry=NaN", "dev --count -1",
	} {
		f.Add(strings.ReplaceAll(s, " ", "\n"))
	}
	f.Fuzz(func(t *testing.T, text string) {
		var said bytes.Buffer
		defer func() {
			if r := recover(); r != nil {
				require.IsType(t, helpShown{}, r)
			}
		}()
		parser, err := kong.New(&commands{}, kong.Name("redlock"), kong.Writers(&said, &said),
			kong.Exit(func(code int) { panic(helpShown{code}) }), kong.Bind(streams{}))
		require.NoError(t, err)
		args := append(strings.Split(text, "\n"), "redis://u:"+secret+"@h")
		_, err = parser.Parse(args)
		if err == nil {
			return
		}
		if code := report(&said, usagef("%w", err)); code == 0 {
			t.Fatal("an error is no success")
		}
		var parse *kong.ParseError
		require.True(t, errors.As(err, &parse), "%v", err)
		require.NotContains(t, said.String(), ":"+secret+"@h", "%q", args)
	})
}
