"""The server's log file, rotated by size."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from logging.handlers import RotatingFileHandler
from pathlib import Path

LINE_MAX = 4_000
TRACEBACK_MAX = 16_000


@contextmanager
def log_to(path: Path, *, bytes_max: int, files_kept: int) -> Iterator[Callable[[str], None]]:
    """A function that logs a line to `path`, from any thread; the file is rotated.

    Warnings and errors of libraries and the API are written there too, because without a
    handler they would appear in the terminal.
    """
    handler = _LogFile(path, maxBytes=bytes_max, backupCount=files_kept, encoding="utf-8", delay=True)
    handler.setFormatter(_OneLine("%(asctime)s %(message)s"))
    handler.setLevel(logging.WARNING)

    def log(line: str) -> None:
        record = logging.LogRecord("sokovan", logging.INFO, "", 0, one_line(line), None, None)
        handler.handle(record)

    root_logger = logging.getLogger()
    root_logger.addHandler(handler)
    try:
        yield log
    finally:
        root_logger.removeHandler(handler)
        handler.close()


class _LogFile(RotatingFileHandler):
    """Says once that the file cannot be written, and not for each record why."""

    _failing = _failed = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record; one that cannot be written is lost."""
        self._failed = False
        super().emit(record)
        self._failing = self._failed

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # the name in the standard library
        """Report the first of several failures."""
        del record
        self._failed = True
        if not self._failing:
            sys.stderr.write(f"the log file cannot be written: {one_line(str(sys.exc_info()[1]))}\n")


class _OneLine(logging.Formatter):
    """Formats a record, including its traceback, as one line."""

    def format(self, record: logging.LogRecord) -> str:
        return one_line(super().format(record), limit=TRACEBACK_MAX)


def one_line(text: str, *, limit: int = LINE_MAX) -> str:
    r"""Escape control characters, so that a text stays one harmless line.

    >>> one_line("a" + chr(10) + "b" + chr(27))
    'a\\nb\\x1b'
    """
    shown = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text[:limit])
    return shown if len(text) <= limit else f"{shown} ... {len(text) - limit} more"
