"""Reads kernel logs from agents in chunks."""

from __future__ import annotations

import base64

from sokovan.api.errors import LogGone
from sokovan.domain.lifecycle.kernel import KERNEL
from sokovan.domain.records import KernelRecord
from sokovan.ports.agent_gateway import AgentRefused, KernelGateway
from sokovan.ports.runtime import LogPart
from sokovan.wire.api.sessions import LogChunk

PIECE = 64 << 10
PIECE_MAX = 256 << 10
OFFSET_MAX = 2**62
TAIL_MAX = 100_000
# A tail is searched in this many bytes from the end; longer lines are cut.
TAIL_BYTES_MAX = 8 << 20
LINE_MAX = 500


class KernelLogs:
    """Reads logs through the gateway, depending on the status of the kernel."""

    def __init__(self, gateway: KernelGateway) -> None:
        self._gateway = gateway

    async def read(self, kernel: KernelRecord, *, offset: int, limit: int = PIECE) -> LogPart | None:
        """A chunk of the output; None while the kernel has not started.

        Raises LogGone for deleted output, AgentUnreachable.
        """
        ended = kernel.status in KERNEL.terminal
        if kernel.agent_id is None or not kernel.sent:
            return LogPart(offset, b"", end=True) if ended else None
        try:
            return await self._gateway.read_log(
                kernel.agent_id, kernel.kernel_id, kernel.attempt, offset=offset, limit=limit
            )
        except AgentRefused as error:
            if not ended:
                return None
            raise LogGone(f"the output of kernel {kernel.kernel_id} is no longer on agent {kernel.agent_id}") from error

    async def tail(self, kernel: KernelRecord, lines: int) -> int:
        """The offset of the last `lines` lines."""
        end = await self._end(kernel)
        if lines <= 0:
            return end
        begin, found = end, 0
        while begin > 0 and end - begin < TAIL_BYTES_MAX:
            before = max(0, begin - PIECE)
            piece = await self._piece(kernel, before, begin)
            if piece is None:
                return begin
            at, content = piece
            # A final newline ends the last line and starts no new one.
            breaks = [index for index, byte in enumerate(content) if byte == 0x0A and at + index + 1 < end]
            if found + len(breaks) >= lines:
                return at + breaks[len(breaks) - (lines - found)] + 1
            found += len(breaks)
            if at > before:
                return at
            begin = at
        return begin

    async def last_lines(self, kernel: KernelRecord, lines: int) -> list[str]:
        """The last lines as text, without control characters, of bounded length.

        Raises LogGone, AgentUnreachable.
        """
        part = await self.read(kernel, offset=await self.tail(kernel, lines), limit=PIECE)
        found = [] if part is None else part.data.decode(errors="replace").splitlines()[-lines:]
        return ["".join(char for char in line[:LINE_MAX] if char.isprintable()) for line in found]

    async def _piece(self, kernel: KernelRecord, begin: int, end: int) -> tuple[int, bytes] | None:
        """The available output from `begin` to `end` with its offset, or None."""
        content, at, first = b"", begin, None
        while at < end:
            part = await self.read(kernel, offset=at, limit=min(PIECE, end - at))
            if part is None or not part.data or part.offset >= end:
                break
            first = part.offset if first is None else first
            content += part.data[: end - part.offset]
            at = part.offset + len(part.data)
        return None if first is None else (first, content)

    async def _end(self, kernel: KernelRecord) -> int:
        """The length of the output, by binary search: agents do not report it."""
        # Those that are read again and again, until they write something, cost one question each.
        if not await self._reaches(kernel, 0):
            return 0
        low, high = 1, PIECE
        while high < OFFSET_MAX and await self._reaches(kernel, high):
            low, high = high, high * 2
        while low < high:
            middle = (low + high) // 2
            if await self._reaches(kernel, middle):
                low = middle + 1
            else:
                high = middle
        return low

    async def _reaches(self, kernel: KernelRecord, offset: int) -> bool:
        part = await self.read(kernel, offset=offset, limit=1)
        return part is not None and bool(part.data)


def log_chunk(kernel: KernelRecord, part: LogPart) -> LogChunk:
    """A chunk of output as a wire type."""
    return LogChunk(
        kernel=kernel.index,
        offset=part.offset,
        next_offset=part.offset + len(part.data),
        data=base64.b64encode(part.data).decode(),
        end=part.end,
    )
