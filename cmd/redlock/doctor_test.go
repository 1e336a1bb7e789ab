//go:build unix

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock/internal/testutil"
)

// authority signs the certificates of nodes.
type authority struct {
	file string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{file: filepath.Join(t.TempDir(), "ca.crt"), cert: &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a private authority"},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}}
	var err error
	a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, &a.key.PublicKey, a.key)
	require.NoError(t, err)
	writePEM(t, a.file, "CERTIFICATE", der)
	return a
}

// startNode starts a server that speaks TLS too, and returns the address for it.
func (a *authority) startNode(t *testing.T, change func(*x509.Certificate)) (s *testutil.Server, addr string) {
	t.Helper()
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "a node"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	change(leaf)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificate(rand.Reader, leaf, a.cert, &key.PublicKey, a.key)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "node.crt"), filepath.Join(dir, "node.key")
	writePEM(t, certFile, "CERTIFICATE", der)
	writePEM(t, keyFile, "PRIVATE KEY", secret)
	for range 5 { // until the port found free is still free
		var l net.Listener
		l, err = net.Listen("tcp4", "127.0.0.1:0")
		require.NoError(t, err)
		addr = l.Addr().String()
		require.NoError(t, l.Close())
		s, err = testutil.Start("--appendonly", "yes", "--appendfsync", "always", "--tls-auth-clients", "no", "--tls-ca-cert-file", a.file,
			"--tls-port", strconv.Itoa(l.Addr().(*net.TCPAddr).Port), "--tls-cert-file", certFile, "--tls-key-file", keyFile)
		if err == nil {
			break
		}
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s, addr
}

// runDoctor is a process of its own: the authorities are read once.
func runDoctor(t *testing.T, certFile string, urls ...string) (printed string, code int) {
	t.Helper()
	c := exec.Command("redlock", "doctor")
	c.Env = append(os.Environ(), "SSL_CERT_FILE="+certFile, "SSL_CERT_DIR="+t.TempDir(), nodesVariable+"="+strings.Join(urls, ","))
	out, _ := c.CombinedOutput()
	return string(out), c.ProcessState.ExitCode()
}

func TestDoctorOverTLS(t *testing.T) {
	a, stranger := newAuthority(t), newAuthority(t)
	as := func(*x509.Certificate) {}
	var urls []string
	var plain *testutil.Server
	for range 3 {
		s, addr := a.startNode(t, as)
		plain, urls = s, append(urls, "rediss://"+addr)
	}
	node := strings.TrimPrefix(urls[0], "rediss://")

	printed, code := runDoctor(t, a.file, urls...)
	assert.Zero(t, code, printed)
	assert.Regexp(t, `(?m)^ok    `+node+`  tls +TLS$`, printed)
	assert.Regexp(t, `(?m)^ok    `+node+`  rights +a trial lock was taken,`, printed)

	printed, code = runDoctor(t, stranger.file, urls...)
	assert.Equal(t, 1, code)
	assert.Regexp(t, `(?m)^bad   `+node+`  reach +.*unknown authority.*\n.*means.*\n +mend +Trust the authority .*SSL_CERT_FILE=/path/ca\.crt`, printed)
	assert.NotContains(t, printed, "requirepass")

	_, old := a.startNode(t, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Hour) })
	_, elsewhere := a.startNode(t, func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{"elsewhere.example"} })
	printed, code = runDoctor(t, a.file, "rediss://"+old, "rediss://"+elsewhere, "rediss://"+plain.Addr())
	assert.Equal(t, 1, code)
	assert.Regexp(t, `(?m)^bad   `+old+`  reach .*expired.*\n.*means.*\n +mend +Give it a certificate that is good now`, printed)
	assert.Regexp(t, `(?m)^bad   `+elsewhere+`  reach .*\n.*means.*\n +mend +In its URL, name the host`, printed)
	assert.Regexp(t, `(?m)^bad   `+plain.Addr()+`  reach .*\n.*means.*\n +mend +.*rediss:// for a tls-port, and for no other`, printed)
	assert.NotContains(t, printed, "SSL_CERT_FILE")
}
