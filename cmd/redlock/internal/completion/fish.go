package completion

import "strings"

func (m model) fish() string {
	var b strings.Builder
	writef(&b, "# fish completion for %[1]s\ncomplete -c %[1]s -f\n", m.name)
	for _, c := range m.commands {
		writef(&b, "complete -c %s -n __fish_use_subcommand -a %s -d %s\n", m.name, c.name, fishQuote(c.help))
	}
	for _, c := range m.commands {
		when := fishQuote("__fish_seen_subcommand_from " + c.name)
		for _, f := range c.flags {
			writef(&b, "complete -c %s -n %s -l %s", m.name, when, f.name)
			if f.short != "" {
				writef(&b, " -s %s", f.short)
			}
			switch {
			case f.file:
				b.WriteString(" -r -F")
			case f.takesValue:
				b.WriteString(" -x")
			}
			writef(&b, " -d %s\n", fishQuote(f.help))
		}
		switch {
		case len(c.words) > 0:
			writef(&b, "complete -c %s -n %s -a %s\n", m.name, when, fishQuote(strings.Join(c.words, " ")))
		case c.nested:
			writef(&b, "complete -c %s -n %s -a '(__fish_complete_subcommand)'\n", m.name, fishQuote("contains -- -- (commandline -opc)"))
		}
	}
	return b.String()
}

// fishQuote: inside single quotes fish knows the backslash.
func fishQuote(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(text) + "'"
}
