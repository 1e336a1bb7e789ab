package pooltest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/testutil"
	"github.com/quorumlock/redlock/pool"
)

// Rights are those an ACL user needs for locks whose names start with "lock:", as
// docs/operations-acl.md prints them; and GuardRight is one more for the restart
// guard. Clients may need rights of their own to connect.
var (
	Rights = []string{
		"~lock:*", "&redlock:wake:*",
		"+eval", "+evalsha",
		"+get", "+set", "+del", "+exists", "+pttl", "+pexpire", "+time",
		"+zadd", "+zrem", "+zrank", "+zrange", "+zcard", "+zpopmin", "+publish",
		"+subscribe",
	}
	GuardRight = "+info"
)

// User makes an ACL user with no rights but those, and password "pw".
func User(t testing.TB, s *testutil.Server, name string, rights ...string) {
	t.Helper()
	words := []any{"ACL", "SETUSER", name, "reset", "on", ">pw"}
	for _, r := range rights {
		// Channel rights came with 6.2; before, every channel is open.
		if r[0] == '&' && !newerThan6(t, s) {
			continue
		}
		words = append(words, r)
	}
	s.MustDo(t, words...)
}

func leastPrivilege(t *testing.T, open Factory) {
	s := testutil.StartRedis(t)
	User(t, s, "locker", append(Rights, GuardRight)...)
	p := open(t, s.Addr(), Options{Username: "locker", Password: "pw"})
	Grants(t, p)
	require.NoError(t, WholeLife(s, p))
}

// WholeLife runs every script on every path that calls for a right, for locks named
// "lock:…", over the one pool of server s. The error is the first refusal that was
// seen; rights that redlock can do without leave one in the server's ACL LOG only.
func WholeLife(s *testutil.Server, p pool.Pool) error {
	r, err := redlock.New([]pool.Pool{p}, redlock.WithNodeTimeout(2*time.Second), redlock.WithExpiry(4*time.Second))
	if err != nil {
		return err
	}
	defer func() {
		// Clean-ups that are refused are tried again and again.
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = r.Close(ctx)
	}()
	ctx, cancel := context.WithTimeout(context.Background(), settle)
	defer cancel() // ends the waiters first
	m := r.NewMutex("lock:life")
	if err := m.LockContext(ctx); err != nil {
		return err
	}
	// Three wait in all, so that a queue is joined, left and handed over.
	brief, done := context.WithTimeout(ctx, short)
	defer done()
	waited := make(chan error, 2)
	for range 2 {
		go func() {
			next := r.NewMutex("lock:life")
			err := next.LockContext(ctx)
			if err == nil {
				_, err = next.UnlockContext(ctx)
			}
			waited <- err
		}()
	}
	_ = r.NewMutex("lock:life").LockContext(brief)
	// A wake-up for somebody who waits no longer is passed on.
	channels, err := redis.Strings(s.Do("PUBSUB", "CHANNELS", "redlock:wake:*"))
	if err != nil {
		return err
	}
	for _, channel := range channels {
		if _, err := s.Do("PUBLISH", channel, "1 lock:life"); err != nil {
			return err
		}
	}
	if _, err := m.ExtendContext(ctx); err != nil {
		return err
	}
	if err := m.Check(ctx); err != nil {
		return err
	}
	if _, err := r.Inspect(ctx, "lock:life"); err != nil {
		return err
	}
	if _, err := m.UnlockContext(ctx); err != nil {
		return err
	}
	for range 2 {
		if err := <-waited; err != nil {
			return err
		}
	}
	return brokenWhileWaitedFor(ctx, r, "lock:broken")
}

// brokenWhileWaitedFor breaks a lock that another waits for, who gets it then.
func brokenWhileWaitedFor(ctx context.Context, r *redlock.Redlock, name string) error {
	if err := r.NewMutex(name).LockContext(ctx); err != nil {
		return err
	}
	waited := make(chan error, 1)
	go func() { waited <- r.NewMutex(name).LockContext(ctx) }()
	// A waiter that may not queue waits all the same.
	for started, joined := time.Now(), false; !joined && time.Since(started) < soon; {
		seen, err := r.Inspect(ctx, name)
		if err != nil {
			return err
		}
		joined = seen.Waiters > 0
	}
	if err := r.Break(ctx, name); err != nil {
		return err
	}
	return <-waited
}

// certificates makes an authority and a certificate of it for 127.0.0.1, as files
// for the server and as a pool for clients.
func certificates(t testing.TB) (certFile, keyFile, caFile string, roots *x509.CertPool) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return path
	}
	now := time.Now()
	template := func(serial int64, name string) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name},
			NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		}
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	ca := template(1, "authority of a test")
	ca.IsCA, ca.BasicConstraintsValid, ca.KeyUsage = true, true, x509.KeyUsageCertSign
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	require.NoError(t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	leaf := template(2, "server of a test")
	leaf.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	leaf.KeyUsage, leaf.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	require.NoError(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	parsed, err := x509.ParseCertificate(caDER)
	require.NoError(t, err)
	roots = x509.NewCertPool()
	roots.AddCert(parsed)
	return write("cert.pem", "CERTIFICATE", leafDER), write("key.pem", "PRIVATE KEY", keyDER), write("ca.pem", "CERTIFICATE", caDER), roots
}

// overTLS has the server take encrypted connections only, but for the test's own.
func overTLS(t *testing.T, open Factory) {
	certFile, keyFile, caFile, roots := certificates(t)
	var s *testutil.Server
	var port int
	var err error
	for range 5 { // until the port found free is still free
		port = freePort(t)
		s, err = testutil.Start("--tls-port", strconv.Itoa(port), "--tls-cert-file", certFile, "--tls-key-file", keyFile,
			"--tls-ca-cert-file", caFile, "--tls-auth-clients", "no")
		if err == nil {
			break
		}
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	User(t, s, "locker", Rights...)
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	o := Options{Username: "locker", Password: "pw", TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	p := open(t, addr, o)
	Grants(t, p)
	l := listen(t, p, "redlock:wake:tls")
	await(t, l.ready, "confirmation")
	s.MustDo(t, "PUBLISH", "redlock:wake:tls", "over TLS")
	require.Equal(t, "over TLS", await(t, l.heard, "a message"))
	l.stop()
	l.end(t) //nolint:errcheck // any will do

	for name, bad := range map[string]*tls.Config{
		"plain":             nil,
		"unknown authority": {RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12},
		"other host":        {RootCAs: roots, ServerName: "elsewhere.example", MinVersion: tls.VersionTLS12},
	} {
		o.TLS = bad
		within(t, soon+soon, name, func() {
			_, err := open(t, addr, o).Eval(ctxFor(t, soon), one, nil)
			require.Error(t, err, name)
		})
	}
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close() //nolint:errcheck // the server listens there next
	return l.Addr().(*net.TCPAddr).Port
}
