"""`sokovan completion`: our words in the user's shell."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from sokovan.cli.catalogue import first_words
from tests.unit.cli.canned_server import Sokovan


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_first_word_is_completed(sokovan: Sokovan, shell: str) -> None:
    status, out, err = sokovan("completion", shell)
    assert (status, err) == (0, "")
    assert [word for word in first_words() if word not in out] == []


def test_the_shell_itself_can_read_it(sokovan: Sokovan, tmp_path: Path) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    (tmp_path / "c.sh").write_text(sokovan("completion", "bash")[1], encoding="utf-8")
    assert subprocess.run([bash, "-n", str(tmp_path / "c.sh")], check=False).returncode == 0
