"""`sokovan completion`: our words in the user's shell."""

from __future__ import annotations

from typing import Literal

from sokovan.cli.completion.scripts import SCRIPTS
from sokovan.cli.exit_codes import OK
from sokovan.cli.output import print_data


def completion(shell: Literal["bash", "zsh", "fish"], /) -> int:
    """Print what makes a shell complete our words.

    Commands, options, and the names of what there is: sessions, queues, machines and more. The server has 300 ms to
    tell them; what it told last is kept in the user's cache.

    For example:
      source <(sokovan completion bash)
      sokovan completion zsh > ~/.zfunc/_sokovan
      sokovan completion fish > ~/.config/fish/completions/sokovan.fish

    Parameters
    ----------
    shell
        Which shell.
    """
    print_data(SCRIPTS[shell])
    return OK
