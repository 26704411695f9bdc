"""Completion scripts for bash, zsh and fish.

The scripts contain no command names: they pass the typed words to `sokovan __complete`
and show its output, one candidate per line with a description after a tab. An exit code
other than 0 means: complete file names.
"""

from __future__ import annotations

# Each script runs the program as it was typed, so that one outside PATH completes too.
_BASH = r"""
_sokovan() {
  local found line program word before
  local -a typed=()
  COMPREPLY=()
  program=$(type -P -- "$1") || program=sokovan
  # bash splits words at : and @, which occur in image names, and replaces only the part after the last one.
  for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
    if ((${#typed[@]})) && [[ $word == [:@]* || ${typed[-1]} == *[:@] ]]; then
      typed[-1]+=$word
    else
      typed+=("$word")
    fi
  done
  before=${typed[-1]%"${typed[-1]##*[:@]}"}
  if ! found=$("$program" __complete "${typed[@]}" 2>/dev/null </dev/null); then
    compopt -o default 2>/dev/null
    return
  fi
  while IFS= read -r line; do
    line=${line%%$'\t'*}
    [[ -n $line ]] && COMPREPLY+=("$(printf %q "${line#"$before"}")")
  done <<<"$found"
}
complete -F _sokovan sokovan
"""

_ZSH = r"""
#compdef sokovan
_sokovan() {
  local found line word program=$words[1]
  local -a known
  (( $+commands[$program] )) || [[ -x $program ]] || program=sokovan
  found=$("$program" __complete "${(@Q)words[2,CURRENT]}" 2>/dev/null </dev/null) || { _files; return }
  for line in ${(f)found}; do
    word=${${line%%$'\t'*}//:/\\:}
    [[ $line == *$'\t'* ]] && word+=:${line#*$'\t'}
    known+=("$word")
  done
  _describe sokovan known
}
if [[ $funcstack[1] == _sokovan ]]; then
  _sokovan "$@"
else
  compdef _sokovan sokovan
fi
"""

_FISH = r"""
function __sokovan_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l program $words[1]
    type -q -- $program; or set program sokovan
    set -l found ($program __complete $words[2..] 2>/dev/null </dev/null)
    if test $status -ne 0
        __fish_complete_path (commandline -ct)
        return
    end
    printf '%s\n' $found
end
complete -c sokovan -f -a '(__sokovan_complete)'
"""

SCRIPTS = {"bash": _BASH.strip(), "zsh": _ZSH.strip(), "fish": _FISH.strip()}
