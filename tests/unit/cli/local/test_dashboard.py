"""Opening the dashboard of a server that has just been started."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sokovan.cli.local.dashboard import Opening, opened


@pytest.mark.slow
def test_the_first_line_of_a_new_server_opens_its_dashboard_once(tmp_path: Path) -> None:
    noted = tmp_path / "opened"
    lines: list[str] = []
    program = [sys.executable, "-c", f"open({str(noted)!r}, 'a').write('x')"]
    opening = Opening(lines.append, program=program)
    assert opening.wait() == 0
    for line in ("ready", "stopping"):
        opening(line)
    assert opening.wait() == 0
    assert (lines, noted.read_text(encoding="utf-8")) == (["ready", "stopping"], "x")


def test_nothing_is_opened_unless_it_is_wanted() -> None:
    assert opened(wanted=False) == 0
