"""Routes of the files of kernels: list, read a part, copy an upload into one."""

from __future__ import annotations

import base64
from typing import Annotated

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.access.auditing import audit_entry
from sokovan.api.access.authentication import principal_of
from sokovan.api.access.lookup import kernel_at, read_session
from sokovan.api.context import ApiContext
from sokovan.api.mapping.files import file_answer, file_page
from sokovan.api.operations import ApiOperation, body_of, json_response
from sokovan.api.routes.parameters import Index, Ref
from sokovan.domain.errors import Conflict, ObjectNotFound, quoted
from sokovan.domain.ids import AgentId
from sokovan.domain.lifecycle.kernel import KERNEL, KernelStatus
from sokovan.domain.owners.uploads import require_digest, upload_reference
from sokovan.domain.records import KernelRecord, SessionRecord
from sokovan.ports.kernel_files import AgentFiles, FileRefused, KernelPath
from sokovan.wire.api.files import OUTPUT, READ_BYTES_MAX, CopyBody, CopyView, FileChunk, FilePage

# Two of these, each character written as up to 12, fit into the longest request line.
PATH_MAX = 1_024
OFFSET_MAX = 2**62

FilePath = Annotated[
    str,
    Query(
        max_length=PATH_MAX,
        description="Relative to the working directory, absolute in a folder of the kernel, or below `output/`.",
    ),
]


class KernelFileRoutes:
    """Routes of the files of kernels, for callers that may see the session."""

    def __init__(self, context: ApiContext) -> None:
        self._files, self._store = context.dependencies.files, context.store
        self._uploads, self._limits = context.dependencies.uploads, context.settings.copies

    def operations(self) -> list[ApiOperation]:
        """The operations of this resource."""
        files, tag = "/api/v1/sessions/{ref}/kernels/{index}/files", "files"
        return [
            ApiOperation(
                method="GET", path=files, endpoint=self.list, tag=tag,
                answer=FilePage, fails=(404, 409), asks_agents=True,
            ),
            ApiOperation(
                method="POST", path=files, endpoint=self.place, tag=tag,
                body=CopyBody, answer=CopyView, fails=(404, 409),
            ),
            ApiOperation(
                method="GET", path=f"{files}/content", endpoint=self.read, tag=tag,
                answer=FileChunk, fails=(404, 409), asks_agents=True,
            ),
        ]  # fmt: skip

    async def list(
        self,
        request: Request,
        ref: Ref,
        index: Index,
        *,
        path: FilePath = OUTPUT,
        after: Annotated[str, Query(max_length=PATH_MAX, description="`next` of the previous page.")] = "",
    ) -> Response:
        """List the regular files below a path; by default the output of the kernel."""
        record, kernel, agent_id = await self._kernel(request, ref, index)
        _require_readable(record, kernel, path)
        place = KernelPath(kernel.kernel_id, kernel.attempt, path)
        files = self._required()
        listing = await file_answer(files.list(agent_id, place, after=after, files_max=self._limits.files_max))
        return json_response(file_page(listing, kernel.index, path, bytes_max=self._limits.bytes_max))

    async def read(
        self,
        request: Request,
        ref: Ref,
        index: Index,
        *,
        path: FilePath = OUTPUT,
        offset: Annotated[int, Query(ge=0, le=OFFSET_MAX, description="Offset in bytes from the start.")] = 0,
        mark: Annotated[str, Query(max_length=100, description="`mark` of the first part.")] = "",
    ) -> Response:
        """Read a part of a file, at most 512 KiB; `size` is that of the whole."""
        record, kernel, agent_id = await self._kernel(request, ref, index)
        _require_readable(record, kernel, path)
        place = KernelPath(kernel.kernel_id, kernel.attempt, path)
        part = await file_answer(self._required().read(agent_id, place, offset=offset, limit=READ_BYTES_MAX, mark=mark))
        if part.size > self._limits.bytes_max:
            limit_text = f"{self._limits.bytes_max}, the limit of a copy"
            raise FileRefused(f"{quoted(path)} has {part.size} bytes, more than {limit_text}")
        data = base64.b64encode(part.data).decode()
        return json_response(FileChunk(offset=offset, data=data, size=part.size, mark=part.mark))

    async def place(self, request: Request, ref: Ref, index: Index) -> Response:
        """Copy an upload of the caller into a running kernel; repeat it until it is done.

        All files of the upload have their first folder in common, or it is one file. That
        gets the name of the path, unless the path is a folder: then it is copied into it.
        """
        principal, body = principal_of(request.scope), body_of(request, CopyBody)
        record, kernel, agent_id = await self._kernel(request, ref, index)
        if kernel.status is not KernelStatus.RUNNING:
            hint = "files can be copied only into a running kernel"
            raise Conflict(f"kernel {kernel.index} of {record.spec.name} is {kernel.status}", hint=hint)
        require_digest(body.upload)
        if self._uploads is None:
            raise ObjectNotFound(what="upload", name=body.upload)
        await self._uploads.use(principal.user, body.upload)
        place = KernelPath(kernel.kernel_id, kernel.attempt, body.path)
        placed = await file_answer(self._required().put(agent_id, place, upload_reference(principal.user, body.upload)))
        if placed.done:
            entry = audit_entry(principal, "session.copy", kernel.kernel_id, path=placed.path[:200])
            await self._store.run(lambda unit: unit.audit.append(entry))
        return json_response(CopyView(done=placed.done, path=placed.path))

    async def _kernel(self, request: Request, ref: str, index: int) -> tuple[SessionRecord, KernelRecord, AgentId]:
        """The kernel, and the agent that has its files. Raises ObjectNotFound, Conflict."""
        record = await read_session(self._store, ref, principal_of(request.scope))
        kernel = kernel_at(record, index)
        if kernel.agent_id is None or not kernel.sent:
            raise Conflict(
                f"kernel {kernel.index} of {record.spec.name} is {kernel.status} and has no files",
                hint="wait until it runs: sokovan wait SESSION --for RUNNING",
            )
        return record, kernel, kernel.agent_id

    def _required(self) -> AgentFiles:
        if self._files is None:
            raise Conflict("this server has no files of kernels", hint="mount a folder into the session")
        return self._files


def _require_readable(record: SessionRecord, kernel: KernelRecord, path: str) -> None:
    """Of a kernel that has ended only the output can be read."""
    if kernel.status in KERNEL.terminal and path.partition("/")[0] != OUTPUT:
        raise Conflict(
            f"session {record.spec.name} has ended: only its output is kept",
            hint=f"list it with `sokovan session files {record.spec.name}`, and name its files {OUTPUT}/...",
        )
