package main

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/quorumlock/redlock"
)

// shown is text that others chose, as a terminal may see it: what is not printable
// would move its cursor, set its title or forge a line.
func shown(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }) || !utf8.ValidString(text) {
		return strconv.Quote(text)
	}
	return text
}

// escaped is shown for what has lines of its own: these stay.
func escaped(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if quoted := shown(line); quoted != line {
			lines[i] = strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
		}
	}
	return strings.Join(lines, "\n")
}

// plain is an error of the library without the prefix that report puts there itself.
func plain(err error) string { return strings.TrimPrefix(err.Error(), "redlock: ") }

// flagOf are the flags that set options.
var flagOf = map[string]string{"WithExpiry": "--ttl", "WithValue": "--value"}

// flagError is an error for an invalid option, with the flag's name in place of the
// option's.
func flagError(err error) error {
	var invalid *redlock.OptionError
	if errors.As(err, &invalid) && flagOf[invalid.Option] != "" {
		return usagef("%s %v: %s", flagOf[invalid.Option], invalid.Value, invalid.Why)
	}
	return usagef("%s", plain(err))
}
