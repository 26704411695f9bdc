"""Splits the interleaved output of several kernels into lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sokovan.sdk.core.streams.followers import LogPiece

# Longer lines are split.
LINE_MAX = 64 * 1024


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a kernel's output, without its line break."""

    kernel: int
    content: bytes

    @property
    def text(self) -> str:
        """The line as text; invalid UTF-8 is replaced."""
        return self.content.decode(errors="replace")

    def __str__(self) -> str:
        return self.text


class LineReader:
    """Assembles chunks of several kernels' output into lines."""

    def __init__(self) -> None:
        self._rest: dict[int, bytes] = {}

    def feed(self, piece: LogPiece) -> Iterator[LogLine]:
        """The lines that end in this chunk."""
        *lines, rest = (self._rest.get(piece.kernel, b"") + piece.content).split(b"\n")
        for line in lines:
            yield LogLine(piece.kernel, line.removesuffix(b"\r"))
        while len(rest) > LINE_MAX:
            yield LogLine(piece.kernel, rest[:LINE_MAX])
            rest = rest[LINE_MAX:]
        self._rest[piece.kernel] = rest
        if piece.end:
            yield from self._flush(piece.kernel)

    def close(self) -> Iterator[LogLine]:
        """The unfinished lines."""
        for kernel in sorted(self._rest):
            yield from self._flush(kernel)

    def _flush(self, kernel: int) -> Iterator[LogLine]:
        rest = self._rest.pop(kernel, b"")
        if rest:
            yield LogLine(kernel, rest)
