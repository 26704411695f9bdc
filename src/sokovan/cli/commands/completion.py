"""`sokovan completion`: our words in the user's shell."""

from __future__ import annotations

from typing import Literal

from sokovan.cli.exit_codes import OK
from sokovan.cli.output import say


def completion(shell: Literal["bash", "zsh", "fish"], /) -> int:
    """Print what makes a shell complete our words.

    For example:
      source <(sokovan completion bash)
      sokovan completion zsh > ~/.zfunc/_sokovan
      sokovan completion fish > ~/.config/fish/completions/sokovan.fish

    Parameters
    ----------
    shell
        Which shell.
    """
    from sokovan.cli.app import make_app  # noqa: PLC0415  # every command loads for this

    say(make_app().generate_completion(shell=shell).rstrip("\n"))
    return OK
