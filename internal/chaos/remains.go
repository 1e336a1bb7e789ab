//go:build unix

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/testutil"
)

// field is a line of INFO.
func field(info, name string) (string, error) {
	for line := range strings.Lines(info) {
		if value, found := strings.CutPrefix(line, name+":"); found {
			return strings.TrimSpace(value), nil
		}
	}
	return "", fmt.Errorf("INFO has no %s", name)
}

// fenceRetention is how long companion keys outlive a lock, by the protocol.
const fenceRetention = 20 * time.Second

// remains waits until nothing is left at a node but fences, tombstones and markers that
// run out by themselves, and returns what is. Locks of clients that were killed may
// last for life, their places in a queue for a fence's life more; without patience those are let be.
func (d *node) remains(names []string, life, slack time.Duration, patient bool) []string {
	var left []string
	looked := time.Now()
	testutil.Poll(life+fenceRetention+slack, func() bool {
		var queues []string
		left, queues = d.look(names)
		if len(left) > 0 {
			return time.Since(looked) > life+slack // these have to be gone sooner
		}
		if patient {
			left = queues
		}
		return len(left) == 0
	})
	return left
}

// look lists what is at a node now, queues apart.
func (d *node) look(names []string) (left, queues []string) {
	keys, err := d.server.Keys()
	if err != nil {
		return []string{err.Error()}, nil
	}
	for _, key := range keys {
		name, kind := parted(key, names)
		ttl, err := redis.Int64(d.server.Do("PTTL", key))
		switch runsOut := err == nil && ttl >= 0; {
		case err == nil && ttl == -2: // it is gone
		case runsOut && slices.Contains([]string{"f", "b", "m"}, kind):
		case runsOut && kind == "q":
			queues = append(queues, fmt.Sprintf("queue of %s, for %d ms", name, ttl))
		default:
			left = append(left, fmt.Sprintf("key %q, for %d ms (%v)", key, ttl, err))
		}
	}
	channels, err := redis.Strings(d.server.Do("PUBSUB", "CHANNELS"))
	if err != nil || len(channels) > 0 {
		left = append(left, fmt.Sprintf("subscriptions %v (%v)", channels, err))
	}
	return left, queues
}

// parted takes the name out of a companion key; kind is "" for others.
func parted(key string, names []string) (name, kind string) {
	for _, name := range names {
		if rest, found := strings.CutPrefix(key, name+":"); found {
			if kind, found := strings.CutSuffix(rest, "{"+name+"}"); found {
				return name, kind
			}
		}
	}
	return key, ""
}
