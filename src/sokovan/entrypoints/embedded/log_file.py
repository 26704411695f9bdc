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
STORY_MAX = 16_000


@contextmanager
def log_to(path: Path) -> Iterator[Callable[[str], None]]:
    """A way to write lines to `path`, from any thread; old ones make room for new.

    While it is open, warnings and failures that libraries and the API log go there too:
    a log that nobody takes would end up in the terminal.
    """
    handler = RotatingFileHandler(path, maxBytes=SIZE_MAX, backupCount=FILES_KEPT, encoding="utf-8", delay=True)
    handler.setFormatter(_OneLine("%(asctime)s %(message)s"))
    handler.setLevel(logging.WARNING)

    def tell(line: str) -> None:
        record = logging.LogRecord("sokovan", logging.INFO, "", 0, one_line(line), None, None)
        handler.handle(record)

    everybody = logging.getLogger()
    everybody.addHandler(handler)
    try:
        yield tell
    finally:
        everybody.removeHandler(handler)
        handler.close()


class _OneLine(logging.Formatter):
    """A record in one line, with the whole story of a failure in it."""

    def format(self, record: logging.LogRecord) -> str:
        return one_line(super().format(record), limit=STORY_MAX)


def one_line(text: str, *, limit: int = LINE_MAX) -> str:
    r"""A text that cannot pretend to be two lines, nor move a terminal's cursor.

    >>> one_line("a" + chr(10) + "b" + chr(27))
    'a\\nb\\x1b'
    """
    shown = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text[:limit])
    return shown if len(text) <= limit else f"{shown} ... {len(text) - limit} more"
