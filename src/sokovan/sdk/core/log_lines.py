"""Output as lines, for people who read several kernels at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sokovan.sdk.core.followers import LogPiece

# A line that does not end is shown in parts.
LINE_MAX = 64 * 1024


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a kernel's output, without its end."""

    kernel: int
    content: bytes

    @property
    def text(self) -> str:
        """The line as text; what is not UTF-8 is shown as a question mark."""
        return self.content.decode(errors="replace")

    def __str__(self) -> str:
        return self.text


class LineReader:
    """Turns pieces of several kernels' output into whole lines."""

    def __init__(self) -> None:
        self._rest: dict[int, bytes] = {}

    def feed(self, piece: LogPiece) -> Iterator[LogLine]:
        """The lines that end in this piece."""
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
        """The lines that never ended."""
        for kernel in sorted(self._rest):
            yield from self._flush(kernel)

    def _flush(self, kernel: int) -> Iterator[LogLine]:
        rest = self._rest.pop(kernel, b"")
        if rest:
            yield LogLine(kernel, rest)
