package completion

import "strings"

// bash looks for the command word, past which only its own flags and words apply.
func (m model) bash() string {
	var b strings.Builder
	writef(&b, `# bash completion for %[1]s
_%[1]s() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]} i
  COMPREPLY=()
  if [[ $COMP_CWORD -eq 1 ]]; then
    COMPREPLY=($(compgen -W %[2]s -- "$current"))
    return
  fi
  local flags='' words='' values='' files='' nested=''
  case $command in
`, m.name, quote(strings.Join(append(m.names(), "--help"), " ")))
	for _, c := range m.commands {
		writef(&b, "    %s) flags=%s words=%s values=%s files=%s nested=%s ;;\n", c.name,
			quote(strings.Join(c.pick(func(flag) bool { return true }), " ")),
			quote(strings.Join(c.words, " ")),
			quote(strings.Join(c.pick(func(f flag) bool { return f.takesValue && !f.file }), " ")),
			quote(strings.Join(c.pick(func(f flag) bool { return f.file }), " ")),
			quote(map[bool]string{true: "yes"}[c.nested]))
	}
	writef(&b, `  esac
  for ((i = 2; i < COMP_CWORD; i++)); do
    if [[ -n $nested && ${COMP_WORDS[i]} == -- ]]; then
      if ((i == COMP_CWORD - 1)); then
        COMPREPLY=($(compgen -c -- "$current"))
      else
        COMPREPLY=($(compgen -f -- "$current"))
      fi
      return
    fi
  done
  if [[ " $files " == *" $previous "* ]]; then
    COMPREPLY=($(compgen -f -- "$current"))
  elif [[ " $values " == *" $previous "* ]]; then
    return
  elif [[ $current == -* ]]; then
    COMPREPLY=($(compgen -W "$flags" -- "$current"))
  else
    COMPREPLY=($(compgen -W "$words" -- "$current"))
  fi
}
complete -o filenames -F _%[1]s %[1]s
`, m.name)
	return b.String()
}
