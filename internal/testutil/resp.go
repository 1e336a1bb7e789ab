package testutil

import (
	"bytes"
	"strconv"
)

// requestLen is the length of the first whole request in buf, an array of bulk
// strings or an inline command, and 0 while bytes of it are missing. What is no
// RESP counts as one request as far as it has come.
func requestLen(buf []byte) int {
	if len(buf) == 0 {
		return 0
	}
	line := lineLen(buf)
	if line == 0 || buf[0] != '*' {
		return line
	}
	count, ok := header(buf[:line])
	if !ok {
		return len(buf)
	}
	n := line
	for range count {
		if n == len(buf) {
			return 0
		}
		line = lineLen(buf[n:])
		if line == 0 {
			return 0
		}
		size, ok := header(buf[n : n+line])
		if !ok || buf[n] != '$' {
			return len(buf)
		}
		n += line + size + len("\r\n")
		if n > len(buf) {
			return 0
		}
	}
	return n
}

// lineLen is the length of the first line with its end, 0 when it has not ended.
func lineLen(buf []byte) int { return bytes.IndexByte(buf, '\n') + 1 }

// header reads the number in a line such as "*3\r\n" or "$11\r\n". Redis takes
// 512 MB in a string at most; the bound keeps the sums in requestLen small.
func header(line []byte) (int, bool) {
	n, err := strconv.Atoi(string(bytes.TrimRight(line[1:], "\r\n")))
	return n, err == nil && n >= 0 && n <= 512<<20
}
