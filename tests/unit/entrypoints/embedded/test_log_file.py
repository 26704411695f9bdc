"""The server's own log: one line each, bounded."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from sokovan.entrypoints.embedded.log_file import log_to, one_line

BYTES_MAX = 100_000


def test_a_line_is_written_with_its_time(tmp_path: Path) -> None:
    with log_to(tmp_path / "sokovan.log", bytes_max=BYTES_MAX, files_kept=3) as log:
        log("agent a1 is here")
    [line] = (tmp_path / "sokovan.log").read_text().splitlines()
    assert line.endswith(" agent a1 is here")
    assert line[:2] == "20"


def test_a_line_cannot_forge_another_line_or_control_the_terminal() -> None:
    assert one_line("name\n2026 forged\x1b[31m") == "name\\n2026 forged\\x1b[31m"


def test_a_very_long_line_is_cut_and_says_so() -> None:
    shown = one_line("x" * 10_000)
    assert len(shown) < 4_100
    assert shown.endswith("6000 more")


@pytest.mark.slow
def test_the_files_stay_small(tmp_path: Path) -> None:
    with log_to(tmp_path / "sokovan.log", bytes_max=BYTES_MAX, files_kept=3) as log:
        for _ in range(5 * BYTES_MAX // 4_000):
            log("y" * 4_000)
    sizes = [path.stat().st_size for path in tmp_path.iterdir()]
    assert len(sizes) <= 1 + 3
    assert max(sizes) <= BYTES_MAX


def test_what_libraries_log_goes_into_the_file_and_not_to_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logger = logging.getLogger("uvicorn.error")
    with log_to(tmp_path / "sokovan.log", bytes_max=BYTES_MAX, files_kept=3):
        logger.info("not logged")
        error = ZeroDivisionError("forged\n2026 line\x1b[31m")
        logger.error("request %s failed", "req-1", exc_info=error)
    [line] = (tmp_path / "sokovan.log").read_text().splitlines()
    assert "request req-1 failed\\nZeroDivisionError" in line
    assert "ZeroDivisionError: forged\\n2026 line\\x1b[31m" in line
    assert capsys.readouterr() == ("", "")


def test_the_loggers_are_left_as_they_were(tmp_path: Path) -> None:
    before = list(logging.getLogger().handlers)
    with log_to(tmp_path / "sokovan.log", bytes_max=BYTES_MAX, files_kept=3):
        assert logging.getLogger().handlers != before
    assert logging.getLogger().handlers == before


def test_a_file_that_cannot_be_written_is_reported_once_until_it_can(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "logs" / "sokovan.log"
    with log_to(path, bytes_max=BYTES_MAX, files_kept=3) as log:
        log("lost")
        log("lost too")
        said = capsys.readouterr().err
        path.parent.mkdir()
        log("kept")
    assert said.startswith("the log file cannot be written: ")
    assert said.count("\n") == 1
    assert path.read_text().endswith(" kept\n")
    assert capsys.readouterr().err == ""
