"""Files that a user names, read with a limit and with errors that name them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sokovan.entrypoints import files
from sokovan.entrypoints.files import UnreadableFile, read_text


def test_a_file_is_read_as_utf_8(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text("scenario: été\n", encoding="utf-8")
    assert read_text(str(file)) == "scenario: été\n"


@pytest.mark.slow
def test_a_dash_is_standard_input() -> None:
    script = "from sokovan.entrypoints.files import read_text; print(read_text('-').upper())"
    done = subprocess.run([sys.executable, "-c", script], input="hello", capture_output=True, text=True, check=True)
    assert done.stdout == "HELLO\n"


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing.yaml"
    with pytest.raises(UnreadableFile, match="No such file or directory") as refused:
        read_text(str(missing))
    assert refused.value.message.startswith(f"cannot read {missing}: ")
    assert refused.value.code == "unreadable-file"


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match="Is a directory"):
        read_text(str(tmp_path))


def test_a_file_that_is_no_text_is_refused_with_the_byte(tmp_path: Path) -> None:
    file = tmp_path / "f.bin"
    file.write_bytes(b"abc\xff")
    with pytest.raises(UnreadableFile, match="is not UTF-8 text: byte 3 is invalid"):
        read_text(str(file))


def test_a_file_is_read_up_to_the_limit_and_not_beyond(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "FILE_MAX", 5)
    file = tmp_path / "f.txt"
    file.write_text("12345", encoding="utf-8")
    assert read_text(str(file)) == "12345"
    file.write_text("123456", encoding="utf-8")
    with pytest.raises(UnreadableFile, match="is larger than 5 bytes"):
        read_text(str(file))
