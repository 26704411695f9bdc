"""What each shell has to be told once, so that it asks us at every Tab.

The scripts know no word of ours: they send what was typed, and show what comes back, a
word in each line and its meaning after a tab. A status other than 0 means: files.
"""

from __future__ import annotations

# Programs are asked for by what was typed, so that one that is not on the PATH completes too.
_BASH = r"""
_sokovan() {
  local found line program word before
  local -a typed=()
  COMPREPLY=()
  program=$(type -P -- "$1") || program=sokovan
  # bash breaks words at : and @, of which images and pools may have one; and it replaces what comes after the last.
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
