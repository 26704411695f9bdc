"""What the server has to say to people who look for a reason; it stays small."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from logging.handlers import RotatingFileHandler
from pathlib import Path

SIZE_MAX = 5 << 20
FILES_KEPT = 3
LINE_MAX = 4_000


@contextmanager
def log_to(path: Path) -> Iterator[Callable[[str], None]]:
    """A way to write lines to `path`, from any thread; old ones make room for new."""
    handler = RotatingFileHandler(path, maxBytes=SIZE_MAX, backupCount=FILES_KEPT, encoding="utf-8", delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))

    def tell(line: str) -> None:
        record = logging.LogRecord("sokovan", logging.INFO, "", 0, one_line(line), None, None)
        handler.handle(record)

    try:
        yield tell
    finally:
        handler.close()


def one_line(text: str) -> str:
    r"""A text that cannot pretend to be two lines, nor move a terminal's cursor.

    >>> one_line("a" + chr(10) + "b" + chr(27))
    'a\\nb\\x1b'
    """
    shown = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text[:LINE_MAX])
    return shown if len(text) <= LINE_MAX else f"{shown} ... {len(text) - LINE_MAX} more"
