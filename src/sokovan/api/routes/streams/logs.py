"""Routes of kernel logs: read a part, or follow."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import Header, Query
from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.access.authentication import principal_of
from sokovan.api.access.lookup import kernel_at, read_session
from sokovan.api.context import ApiContext
from sokovan.api.errors import LogGone
from sokovan.api.operations import EVENT_STREAM, ApiOperation, json_response
from sokovan.api.routes.parameters import Index, Ref
from sokovan.api.streaming.kernel_logs import OFFSET_MAX, PIECE, PIECE_MAX, TAIL_MAX, KernelLogs, log_chunk
from sokovan.api.streaming.log_streams import READ_AT_ONCE, LogStream, read_offsets
from sokovan.domain.errors import Conflict
from sokovan.domain.records import KernelRecord
from sokovan.ports.runtime import LogPart
from sokovan.wire.api.sessions import LogChunk

FOLLOWED_MAX = 256
INDEXES = rf"^[0-9]{{1,7}}(,[0-9]{{1,7}}){{0,{FOLLOWED_MAX - 1}}}$"


class LogRoutes:
    """Routes of kernel logs."""

    def __init__(self, context: ApiContext) -> None:
        dependencies = context.dependencies
        self._store, self._streams = dependencies.store, context.streams
        self._logs = KernelLogs(dependencies.gateway)
        self._follower = LogStream(
            dependencies.store, self._logs, clock=dependencies.clock, limits=context.settings.streams
        )

    def operations(self) -> list[ApiOperation]:
        """The operations of this resource."""
        one, tag = "/api/v1/sessions/{ref}", "logs"
        return [
            ApiOperation(
                method="GET", path=f"{one}/kernels/{{index}}/log", endpoint=self.piece, tag=tag,
                answer=LogChunk, fails=(404, 409, 410), asks_agents=True,
            ),
            ApiOperation(
                method="GET", path=f"{one}/log", endpoint=self.follow, tag=tag,
                answer=LogChunk, media=EVENT_STREAM, fails=(404, 409, 410),
            ),
        ]  # fmt: skip

    async def piece(
        self,
        request: Request,
        ref: Ref,
        index: Index,
        *,
        offset: Annotated[int, Query(ge=0, le=OFFSET_MAX, description="Offset in bytes from the start.")] = 0,
        limit: Annotated[int, Query(ge=1, le=PIECE_MAX, description="The maximum number of bytes.")] = PIECE,
        tail: Annotated[int | None, Query(ge=0, le=TAIL_MAX, description="The last lines; excludes an offset.")] = None,
    ) -> Response:
        """Read a part of a kernel's output; `end` means that no more follows."""
        record = await read_session(self._store, ref, principal_of(request.scope))
        kernel = kernel_at(record, index)
        begin = offset if tail is None else await self._logs.tail(kernel, tail)
        part = await self._logs.read(kernel, offset=begin, limit=limit)
        return json_response(log_chunk(kernel, part if part is not None else LogPart(begin, b"")))

    async def follow(
        self,
        request: Request,
        ref: Ref,
        *,
        follow: Annotated[bool, Query(description="Continue until the kernels have ended.")] = False,
        tail: Annotated[int | None, Query(ge=0, le=TAIL_MAX, description="Start with the last lines.")] = None,
        kernel: Annotated[
            str | None, Query(pattern=INDEXES, description="Only these kernels: indexes, separated by commas.")
        ] = None,
        last_event_id: Annotated[str | None, Header(max_length=8_192)] = None,
    ) -> Response:
        """Stream the output of kernels: events `log`, each with a LogChunk.

        Of at most 256 kernels, as it comes. The id of an event encodes how far each kernel was
        read: `Last-Event-ID` resumes there.
        """
        principal = principal_of(request.scope)
        record = await read_session(self._store, ref, principal)
        wanted = None if kernel is None else frozenset(int(index) for index in kernel.split(","))
        chosen = list(record.kernels) if wanted is None else [kernel_at(record, index) for index in sorted(wanted)]
        if len(chosen) > FOLLOWED_MAX:
            hint = f"name at most {FOLLOWED_MAX} of 0 ... {len(chosen) - 1}, as in kernel=0,1,2"
            raise Conflict(f"the session has {len(chosen)} kernels", hint=hint)
        begin = read_offsets(last_event_id) if last_event_id else await self._begin(chosen, tail)
        return self._streams.response(
            principal,
            lambda ear: self._follower.lines(ear, record, wanted, begin, follow=follow),
            session_id=record.session_id,
        )

    async def _begin(self, kernels: list[KernelRecord], tail: int | None) -> dict[int, int]:
        """The start offsets; also fails early if the logs are gone."""
        if tail is not None:
            return await self._tails(kernels, tail)
        gone: LogGone | None = None
        for kernel in kernels:
            try:
                await self._logs.read(kernel, offset=0, limit=1)
            except LogGone as error:
                gone = error
            else:
                return {}
        if gone is not None:
            raise gone
        return {}

    async def _tails(self, kernels: list[KernelRecord], lines: int) -> dict[int, int]:
        """The offsets at which the last lines begin; some logs are searched at a time.

        Raises LogGone if no output is left.
        """
        found: dict[int, int] = {}
        gone: LogGone | None = None

        async def search(kernel: KernelRecord) -> None:
            nonlocal gone
            try:
                found[kernel.index] = await self._logs.tail(kernel, lines)
            except LogGone as error:
                gone = error

        for start in range(0, len(kernels), READ_AT_ONCE):
            await asyncio.gather(*(search(kernel) for kernel in kernels[start : start + READ_AT_ONCE]))
        if gone is not None and not found:
            raise gone
        return found
