"""Routes of kernel logs: read a part, or follow."""

from __future__ import annotations

from typing import Annotated

from fastapi import Header, Query
from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.access.authentication import principal_of
from sokovan.api.access.lookup import kernel_at, read_session
from sokovan.api.context import ApiContext
from sokovan.api.errors import LogGone
from sokovan.api.operations import EVENT_STREAM, ApiOperation, json_response
from sokovan.api.routes.parameters import INDEX_MAX, Index, Ref
from sokovan.api.streaming.kernel_logs import OFFSET_MAX, PIECE, PIECE_MAX, TAIL_MAX, KernelLogs, log_chunk
from sokovan.api.streaming.log_streams import LogStream, read_offsets
from sokovan.domain.errors import Conflict
from sokovan.domain.records import KernelRecord
from sokovan.ports.runtime import LogPart
from sokovan.wire.api.sessions import LogChunk

FOLLOWED_MAX = 256


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
        kernel: Annotated[int | None, Query(ge=0, le=INDEX_MAX, description="Only this kernel.")] = None,
        last_event_id: Annotated[str | None, Header(max_length=8_192)] = None,
    ) -> Response:
        """Stream the output of the kernels: events `log`, each with a LogChunk.

        The id of an event encodes how far each kernel was read: `Last-Event-ID` resumes
        there.
        """
        principal = principal_of(request.scope)
        record = await read_session(self._store, ref, principal)
        chosen = [kernel_at(record, kernel)] if kernel is not None else list(record.kernels)
        if len(chosen) > FOLLOWED_MAX:
            raise Conflict(
                f"the session has {len(chosen)} kernels", hint=f"name one with kernel=0 ... {len(chosen) - 1}"
            )
        begin = read_offsets(last_event_id) if last_event_id else await self._begin(chosen, tail)
        return self._streams.response(
            principal,
            lambda ear: self._follower.lines(ear, record, kernel, begin, follow=follow),
            session_id=record.session_id,
        )

    async def _begin(self, kernels: list[KernelRecord], tail: int | None) -> dict[int, int]:
        """The start offsets; also fails early if the logs are gone."""
        if tail is not None:
            return {kernel.index: await self._logs.tail(kernel, tail) for kernel in kernels}
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
