package doctor

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// judgeNode is what can be said of a node by itself.
func (c Config) judgeNode(n Node, f *Facts) []Finding {
	if f.Error != "" {
		return []Finding{f.reach()}
	}
	findings := []Finding{
		f.version(), f.role(), c.persistence(f), f.eviction(), f.memory(), c.trip(f), c.uptime(f), f.transport(n),
	}
	if f.Trial != nil {
		findings = append(findings, f.rights(n, c))
	}
	for i := range findings {
		findings[i].Node = f.Addr
	}
	return findings
}

func (f *Facts) reach() Finding {
	out := Finding{
		f.Addr, "reach", Bad, f.Error,
		"It casts no vote: with a minority of such nodes locks go on, with a majority none is granted.",
		"Start it, open its port or mend its URL (rediss:// for a tls-port, and for no other); for a wrong password, requirepass or the user line.",
	}
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(f.cause, &unknown):
		out.Mend = "Trust the authority that signed its certificate: SSL_CERT_FILE=/path/ca.crt in the environment (on macOS and Windows, the system's store)."
	case errors.As(f.cause, &host):
		out.Mend = "In its URL, name the host as its certificate does, or give it a certificate for that name: tls-cert-file, tls-key-file"
	case errors.As(f.cause, &invalid):
		out.Mend = "Give it a certificate that is good now, for servers: tls-cert-file, tls-key-file"
	}
	return out
}

// oldest is the first version that the scripts are tested on.
const oldest = 6

func (f *Facts) version() Finding {
	out := Finding{Check: "version", Verdict: OK, Text: f.Server + " " + f.Version}
	major, err := strconv.Atoi(strings.SplitN(f.Version, ".", 2)[0])
	switch {
	case f.Version == "":
		out.Verdict, out.Text = Warn, "not known: "+f.NoInfo
		out.Means = "What follows of role, persistence and memory rests on less than it should."
		out.Mend = "user NAME … +info"
	case err != nil || f.Server == "redis" && major < oldest:
		out.Verdict = Warn
		out.Means = "The scripts are tested on Redis 6.0 and newer, and on Valkey."
		out.Mend = "Upgrade it."
	}
	return out
}

func (f *Facts) role() Finding {
	out := Finding{Check: "role", Verdict: OK, Text: f.Role}
	switch {
	case f.Role == "slave":
		out.Verdict, out.Text = Bad, "a replica of "+f.Master
		out.Means = "It refuses every write, so it never votes. Replicas are no nodes: each node must be independent."
		out.Mend = "replicaof no one"
	case f.Cluster:
		out.Verdict, out.Text = Warn, "part of a Redis Cluster"
		out.Means = "Failover is asynchronous: the new master may not have a lock that was granted, and a second holder gets it. Waiters also get their notices late."
		out.Mend = "cluster-enabled no"
	case f.Replicas > 0:
		out.Verdict, out.Text = Warn, fmt.Sprintf("master of %d", f.Replicas)
		out.Means = "Replication is asynchronous: where a failover makes a replica the node, it may lack locks that were granted, as after a restart without its keys."
		out.Mend = "replica-priority 0   (on the replicas: they are never promoted)"
	case f.Role == "":
		out.Verdict, out.Text = Warn, "not known"
		out.Means = "A replica would never vote."
		out.Mend = "user NAME … +info"
	}
	return out
}

// How long a restart takes at least, so that shorter locks have expired when the
// node is back: of the process, and of the whole machine after a power cut.
const (
	quickRestart = time.Second
	powerCut     = 10 * time.Second
	longExpiry   = time.Minute
)

func (c Config) persistence(f *Facts) Finding {
	out := Finding{Check: "persistence", Verdict: OK, Text: "appendonly yes, appendfsync " + cmp.Or(f.Fsync, "not known")}
	forgets := "a node that forgot a live lock helps a second holder to a majority, unless all clients use the restart guard (WithRestartGuard)."
	switch {
	case c.Guard:
		out.Text += "; the restart guard covers what it forgets"
		if !f.AOF {
			out.Text = "none; the restart guard covers what it forgets"
		}
	case f.NoInfo != "":
		out.Verdict, out.Text = Warn, "not known"
		out.Means = "After a restart without its keys " + forgets
		out.Mend = "appendonly yes\nappendfsync always"
	case !f.AOF:
		out.Text = fmt.Sprintf("appendonly no; locks live for %v", c.TTL)
		if c.TTL <= quickRestart {
			break // shorter than any restart
		}
		out.Verdict = Warn
		if c.TTL > longExpiry {
			out.Verdict = Bad
		}
		out.Means = fmt.Sprintf("A restart forgets the locks of up to %v that it had granted: ", c.TTL) + forgets
		out.Mend = "appendonly yes\nappendfsync always"
	case f.Fsync != "always" && c.TTL > powerCut:
		out.Verdict = Warn
		out.Means = fmt.Sprintf("A power cut forgets what was not yet on disk, and locks of %v may still be live when the machine is back: ", c.TTL) + forgets
		out.Mend = "appendfsync always"
	}
	return out
}

func (f *Facts) eviction() Finding {
	out := Finding{Check: "eviction", Verdict: OK, Text: "maxmemory-policy " + f.Policy}
	evicts := f.Policy != "" && f.Policy != "noeviction"
	switch {
	case f.Policy == "":
		out.Verdict, out.Text = Warn, "maxmemory-policy not known"
		out.Means = "Any policy but noeviction may drop the key of a lock that is held."
		out.Mend = "maxmemory-policy noeviction"
	case evicts && f.MaxMemory > 0:
		out.Verdict = Bad
		out.Means = "When memory runs short the node drops keys, held locks among them, and grants them to the next one who asks. Keys with an expiry, as all locks are, go first under volatile-*."
		out.Mend = "maxmemory-policy noeviction"
	case evicts:
		out.Verdict = Warn
		out.Text += ", without a maxmemory so far"
		out.Means = "As soon as somebody sets maxmemory, held locks may be dropped."
		out.Mend = "maxmemory-policy noeviction"
	}
	return out
}

func (f *Facts) memory() Finding {
	if f.MaxMemory == 0 {
		return Finding{Check: "memory", Verdict: OK, Text: "no maxmemory"}
	}
	used := f.Memory * 100 / f.MaxMemory
	out := Finding{Check: "memory", Verdict: OK, Text: fmt.Sprintf("%d%% of maxmemory in use", used)}
	if used >= 90 {
		out.Verdict = Warn
		out.Means = "A full node grants no lock."
		out.Mend = fmt.Sprintf("maxmemory %d", 2*f.MaxMemory)
	}
	return out
}

func (c Config) trip(f *Facts) Finding {
	trip, limit := time.Duration(f.Trip)*time.Microsecond, c.nodeTimeout()
	out := Finding{Check: "round trip", Verdict: OK, Text: trip.String()}
	if trip > limit/5 {
		out.Verdict = Warn
		if trip > limit {
			out.Verdict = Bad
		}
		out.Text += fmt.Sprintf(", of a node timeout of %v", limit)
		out.Means = "A node that answers after the node timeout casts no vote. Each lock waits for a majority of the round trips."
		out.Mend = "Not in redis.conf: move it nearer, look for slow commands (SLOWLOG GET), or lengthen --ttl and the node timeout."
	}
	return out
}

func (c Config) uptime(f *Facts) Finding {
	up := time.Duration(f.Uptime) * time.Second
	out := Finding{Check: "uptime", Verdict: OK, Text: fmt.Sprintf("%v, run_id %s", up, cmp.Or(f.RunID, "not known"))}
	if f.RunID != "" && up < c.TTL && (!f.AOF || f.Fsync != "always") && !c.Guard && c.TTL > quickRestart {
		out.Verdict = Warn
		out.Means = fmt.Sprintf("It was restarted less than a --ttl of %v ago: locks from before may still be held elsewhere, and forgotten here.", c.TTL)
		out.Mend = "Wait, before this node serves locks again; for the next time: appendonly yes, appendfsync always."
	}
	return out
}

func (f *Facts) transport(n Node) Finding {
	out := Finding{Check: "tls", Verdict: OK, Text: "TLS"}
	switch {
	case n.TLS:
	case n.Local:
		out.Text = "none, and none needed: it is on this machine"
	default:
		out.Verdict, out.Text = Warn, "none"
		out.Means = "Whoever can read the network can take and release any lock."
		if n.Password {
			out.Means = "The password crosses the network as it is. " + out.Means
		}
		out.Mend = "tls-port 6380   (with tls-cert-file, tls-key-file and tls-ca-cert-file; the URL then starts with rediss://)"
	}
	return out
}

func (f *Facts) rights(n Node, c Config) Finding {
	out := Finding{Check: "rights", Verdict: OK, Text: "a trial lock was taken, extended, looked at, released, waited for, handed over and broken"}
	user := cmp.Or(n.User, "default")
	t := f.Trial
	mend := func(rest string) string { return fmt.Sprintf("user %s … %s", user, rest) }
	everything := mend(fmt.Sprintf("~%s* &%s* +@read +@write +@scripting +@pubsub +time +info", c.Prefix, wakePrefix))
	for _, r := range []struct {
		step, refused string
		verdict       Verdict
		means, mend   string
	}{
		{"lock", t.Lock, Bad, "It never votes.", everything},
		{"eval", t.Eval, Bad, "It votes as long as it knows the scripts: after its next restart, a SCRIPT FLUSH or an upgrade of the library, it never does.", everything},
		{"extend", t.Extend, Bad, "It never renews: locks live for one expiry at most.", everything},
		{"unlock", t.Unlock, Bad, "It does not release as it should: every unlock fails here. A lock stays for the rest of its expiry, or nobody is told that it is free.", everything},
		{"wait", t.Wait, Bad, "It does not vote for those who wait: as soon as a lock is contended they fail here instead of waiting.", everything},
		{"hand-over", t.HandOver, Bad, "As soon as somebody waits for a lock, its unlock fails here.", everything},
		{"restart guard", t.Guard, Bad, "It never votes for clients with the restart guard, which reads INFO.", mend("+info")},
		{"subscribe", t.Subscribe, Warn, untold, mend("&" + wakePrefix + "* +subscribe +publish")},
		{"publish", t.Publish, Warn, untold, mend("&" + wakePrefix + "* +subscribe +publish")},
		{"queue", t.Queue, Warn, "Waiters do not queue here, and are not told of a release. If too few nodes can tell them, they poll: hand-overs take up to 250 ms, in no order.", everything},
		{"leave", t.Leave, Warn, "A waiter that gave up may be called all the same, and the call is not passed on: the next one finds out by its timer, which takes up to a second.", everything},
		{"inspect", t.Inspect, Warn, "Locks work; status and break do not.", everything},
		{"break", t.Break, Warn, "Locks work; break does not.", everything},
	} {
		if r.refused != "" {
			out.Verdict, out.Text, out.Means, out.Mend = r.verdict, r.step+": "+r.refused, r.means, r.mend
			break
		}
	}
	return out
}

const untold = "Waiters are not told of a release here. If too few nodes can tell them, they find out by timers: hand-overs take up to a second."
