package completion

import "strings"

func (m model) zsh() string {
	var b strings.Builder
	writef(&b, "#compdef %[1]s\n\n_%[1]s() {\n  local -a commands=(\n", m.name)
	for _, c := range m.commands {
		writef(&b, "    %s\n", quote(c.name+":"+strings.ReplaceAll(c.help, ":", `\:`)))
	}
	b.WriteString(`  )
  if ((CURRENT == 2)); then
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  ((CURRENT--))
  case $command in
`)
	for _, c := range m.commands {
		writef(&b, "    %s)\n      _arguments -s", c.name)
		for _, f := range c.flags {
			for _, spec := range f.zsh() {
				writef(&b, " \\\n        %s", quote(spec))
			}
		}
		switch {
		case len(c.words) > 0:
			writef(&b, " \\\n        %s", quote("1: :("+strings.Join(c.words, " ")+")"))
		case c.nested:
			writef(&b, " \\\n        %s", quote("*:: :_normal"))
		}
		b.WriteString(" ;;\n")
	}
	// Sourced, it defines itself; from fpath, the file is the function's body.
	writef(&b, `  esac
}

if [ "$funcstack[1]" = "_%[1]s" ]; then
  _%[1]s "$@"
else
  compdef _%[1]s %[1]s
fi
`, m.name)
	return b.String()
}

// zsh is the flag in the language of _arguments; the star allows a repetition.
func (f flag) zsh() []string {
	help := strings.NewReplacer("[", `\[`, "]", `\]`, ":", `\:`).Replace(f.help)
	value, equals := "", ""
	if f.takesValue {
		value, equals = ":"+f.name+":", "="
		if f.file {
			value += "_files"
		}
	}
	specs := []string{"*--" + f.name + equals + "[" + help + "]" + value}
	if f.short != "" {
		specs = append(specs, "*-"+f.short+"["+help+"]"+value)
	}
	return specs
}
