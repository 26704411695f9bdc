"""`sokovan completion`: completion scripts for bash, zsh and fish."""

from __future__ import annotations

from typing import Literal

from sokovan.cli.completion.scripts import SCRIPTS
from sokovan.cli.exit_codes import OK
from sokovan.cli.output import print_data


def completion(shell: Literal["bash", "zsh", "fish"], /) -> int:
    """Generate shell completion.

    Completes commands, options and the names of sessions, agents, queues and
    other objects. Names are requested from the server, with a timeout of 300
    ms, and cached.

    For example:
      source <(sokovan completion bash)
      sokovan completion zsh > ~/.zfunc/_sokovan
      sokovan completion fish > ~/.config/fish/completions/sokovan.fish

    Parameters
    ----------
    shell
        Shell to generate the script for.
    """
    print_data(SCRIPTS[shell])
    return OK
