"""Reads and writes files that a user names, with a size limit."""

from __future__ import annotations

from pathlib import Path

from sokovan.domain.errors import InvalidInput

FILE_MAX = 64 * 1024 * 1024


class UnreadableFile(InvalidInput):
    """The file does not exist, cannot be read, or is not text."""

    code = "unreadable-file"
    hint = "name an existing file with UTF-8 text; - is standard input"


class UnwritableFile(InvalidInput):
    """The file cannot be written."""

    code = "unwritable-file"
    hint = "name a writable folder with free space"


def read_text(file: str) -> str:
    """Read a text file; - is standard input. Raises UnreadableFile."""
    path = Path("/dev/stdin") if file == "-" else Path(file)
    try:
        with path.open("rb") as stream:
            content = stream.read(FILE_MAX + 1)
        if len(content) > FILE_MAX:
            raise UnreadableFile(f"{file} is larger than {FILE_MAX} bytes")
        return content.decode("utf-8")
    except OSError as error:
        raise UnreadableFile(f"cannot read {file}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UnreadableFile(f"{file} is not UTF-8 text: byte {error.start} is invalid") from error


def write_text(path: Path, text: str) -> None:
    """Write a file and create its folders. Raises UnwritableFile."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UnwritableFile(f"cannot write {path}: {error.strerror or error}") from error
