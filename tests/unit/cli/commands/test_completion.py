"""`sokovan completion`: completion scripts."""

from __future__ import annotations

import pytest

from sokovan.cli.completion.scripts import SCRIPTS
from tests.unit.cli.canned_server import Sokovan


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_printed(sokovan: Sokovan, shell: str) -> None:
    assert sokovan("completion", shell) == (0, f"{SCRIPTS[shell]}\n", "")


def test_another_shell_is_a_usage_error(sokovan: Sokovan) -> None:
    status, out, err = sokovan("completion", "tcsh")
    assert (status, out) == (2, "")
    assert "fish" in err
