package redlock

import (
	"strconv"
	"strings"
)

// keys are the names one lock uses on a node. All start with the lock's name,
// so that an ACL for a prefix covers them, and all share its Cluster slot.
type keys struct {
	lock, fence, queue, tombstone, marker string
}

func keysOf(name string) keys {
	return keys{
		lock:      name,
		fence:     companion(name, "f"),
		queue:     companion(name, "q"),
		tombstone: companion(name, "b"),
		marker:    companion(name, "m"),
	}
}

// keyWords are the keys of one lock as words of a call, made once for each mutex.
type keyWords struct {
	lock, fence, queue, tombstone, marker any
}

func (k keys) words() keyWords {
	return keyWords{lock: k.lock, fence: k.fence, queue: k.queue, tombstone: k.tombstone, marker: k.marker}
}

// appendTo appends the first n keys that s takes.
func (w *keyWords) appendTo(to []any, s *script, n int) []any {
	var all [mostKeys]any
	switch s {
	case leaveScript:
		all = [mostKeys]any{w.lock, w.queue}
	case breakScript:
		all = [mostKeys]any{w.lock, w.fence, w.queue, w.tombstone}
	case touchScript:
		all = [mostKeys]any{w.lock, w.fence, w.tombstone, w.marker}
	default:
		all = [mostKeys]any{w.lock, w.fence, w.queue, w.marker}
	}
	return append(to, all[:n]...)
}

// companion names a key in the slot of name. A name with a hash tag lends it, a
// name without braces becomes the tag itself. Braces that make no tag hide any
// tag behind them, so that only a search helps: every client that counts up from
// 0 finds the same one, after about 16,384 tries.
func companion(name, kind string) string {
	if hashTag(name) != name {
		return name + ":" + kind
	}
	plain := name + ":" + kind + "{" + name + "}"
	if !strings.ContainsAny(name, "{}") || slot(plain) == slot(name) {
		return plain
	}
	want := slot(name)
	forms := [2]numbered{newNumbered(name+":"+kind, "}"), newNumbered(name+":"+kind+"{", "}")}
	for i := 0; ; i++ {
		for _, f := range forms {
			if f.slot(i) == want {
				return f.before + strconv.Itoa(i) + f.after
			}
		}
	}
}

// numbered are keys that differ in a number. Their slots are told without the sum over
// the whole of each, for a name may be long.
type numbered struct {
	before, after string
	sum           uint16 // of what the tag has in front of the number
	tail          string // what the tag has behind it
}

// newNumbered takes texts that make the same tag around any number.
func newNumbered(before, after string) numbered {
	start, end := tagBounds(before + "0" + after)
	return numbered{
		before: before, after: after,
		sum: crc16(0, before[start:]), tail: after[:end-len(before)-len("0")],
	}
}

// slot is the Cluster hash slot of key i.
func (n *numbered) slot(i int) uint16 {
	return crc16(crc16(n.sum, strconv.Itoa(i)), n.tail) % 16384
}

// hashTag is the part of a key that decides its slot (Redis Cluster
// specification, "Hash tags"): what stands between the first { and the first }
// after it, or the whole key if that is nothing.
func hashTag(key string) string {
	start, end := tagBounds(key)
	return key[start:end]
}

func tagBounds(key string) (start, end int) {
	open := strings.IndexByte(key, '{')
	if open < 0 {
		return 0, len(key)
	}
	length := strings.IndexByte(key[open+1:], '}')
	if length <= 0 {
		return 0, len(key)
	}
	return open + 1, open + 1 + length
}

// slot is the Cluster hash slot of a key.
func slot(key string) uint16 { return crc16(0, hashTag(key)) % 16384 }

// crc16 goes on with sum over s: CRC-16/XMODEM, the sum that Redis Cluster uses, which
// begins with 0.
func crc16(sum uint16, s string) uint16 {
	for i := range len(s) {
		sum ^= uint16(s[i]) << 8
		for range 8 {
			if sum&0x8000 != 0 {
				sum = sum<<1 ^ 0x1021
			} else {
				sum <<= 1
			}
		}
	}
	return sum
}
