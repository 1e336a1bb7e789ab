package doctor

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Facts are what a node says of itself. Where it says nothing a field is empty.
type Facts struct {
	Addr      string `json:"addr"`
	Error     string `json:"error,omitempty"` // it could not be reached, or refused to log in
	Server    string `json:"server,omitempty"`
	Version   string `json:"version,omitempty"`
	Role      string `json:"role,omitempty"`
	Master    string `json:"master,omitempty"` // of a replica
	Replicas  int    `json:"replicas,omitempty"`
	Cluster   bool   `json:"cluster,omitempty"`
	RunID     string `json:"run_id,omitempty"`
	Uptime    int64  `json:"uptime_s"`
	AOF       bool   `json:"appendonly"`
	Fsync     string `json:"appendfsync,omitempty"`
	Policy    string `json:"maxmemory_policy,omitempty"`
	MaxMemory int64  `json:"maxmemory"` // bytes; 0: no limit
	Memory    int64  `json:"used_memory"`
	TLS       bool   `json:"tls"`
	Offset    int64  `json:"clock_offset_us"` // of its clock to this machine's
	Trip      int64  `json:"round_trip_us"`   // the shortest of a few
	NoInfo    string `json:"no_info,omitempty"`
	NoConfig  string `json:"no_config,omitempty"` // why it could not be read
	Trial     *Trial `json:"trial,omitempty"`

	cause error // Error, as it was
}

func (f *Facts) canTry() bool { return f.Error == "" && f.Role != "slave" }

const (
	probeBound = 5 * time.Second // for a node; each command has its own, shorter one
	clockLooks = 5
)

func probe(ctx context.Context, n Node) Facts {
	f := Facts{Addr: n.Addr, TLS: n.TLS}
	ctx, cancel := context.WithTimeout(ctx, probeBound)
	defer cancel()
	conn, err := n.Dial(ctx)
	if err == nil {
		defer conn.Close() //nolint:errcheck // everything asked was answered
		_, err = conn.Do("PING")
	}
	var refused redis.Error
	if errors.As(err, &refused) && strings.HasPrefix(string(refused), "NOPERM") {
		err = nil // a user without +ping can still lock
	}
	if err != nil {
		f.Error, f.cause = err.Error(), err
		return f
	}
	f.readInfo(conn)
	f.readConfig(conn)
	f.readClock(conn)
	return f
}

func (f *Facts) readInfo(conn redis.Conn) {
	text, err := redis.String(conn.Do("INFO"))
	if err != nil {
		f.NoInfo = err.Error()
		return
	}
	info := map[string]string{}
	for _, line := range strings.Split(text, "\n") {
		if key, value, found := strings.Cut(strings.TrimRight(line, "\r"), ":"); found {
			info[key] = value
		}
	}
	number := func(key string) int64 {
		n, _ := strconv.ParseInt(info[key], 10, 64) // 0 where it is missing
		return n
	}
	f.Server, f.Version = "redis", info["redis_version"]
	if name := info["server_name"]; name != "" && name != "redis" {
		f.Server, f.Version = name, info[name+"_version"]
	}
	if info["run_id"] == "" {
		f.NoInfo = "INFO has no server section"
	}
	f.RunID, f.Uptime = info["run_id"], number("uptime_in_seconds")
	f.Role, f.Replicas = info["role"], int(number("connected_slaves"))
	if f.Role == "slave" {
		f.Master = info["master_host"] + ":" + info["master_port"]
	}
	f.Cluster = info["cluster_enabled"] == "1"
	f.AOF = info["aof_enabled"] == "1"
	f.Policy, f.MaxMemory, f.Memory = info["maxmemory_policy"], number("maxmemory"), number("used_memory")
}

// readConfig: hosted nodes and careful access lists refuse CONFIG.
func (f *Facts) readConfig(conn redis.Conn) {
	fsync, err := redis.StringMap(conn.Do("CONFIG", "GET", "appendfsync"))
	if err != nil {
		f.NoConfig = err.Error()
		return
	}
	f.Fsync = fsync["appendfsync"]
}

// readClock takes the look with the shortest round trip: the node read its clock
// somewhere within it.
func (f *Facts) readClock(conn redis.Conn) {
	for range clockLooks {
		before := time.Now()
		parts, err := redis.Int64s(conn.Do("TIME"))
		trip := time.Since(before)
		if err != nil || len(parts) != 2 {
			return // the trial says what is missing
		}
		if f.Trip == 0 || trip.Microseconds() < f.Trip {
			f.Trip = max(trip.Microseconds(), 1)
			f.Offset = parts[0]*1e6 + parts[1] - before.Add(trip/2).UnixMicro()
		}
	}
}
