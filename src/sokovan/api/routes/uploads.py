"""Uploads: folders that sessions of their owner run in, sent as blobs by content."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query
from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.access.auditing import audit_entry
from sokovan.api.access.authentication import AuthenticatedPrincipal, principal_of
from sokovan.api.context import ApiContext
from sokovan.api.errors import UnsupportedMedia
from sokovan.api.operations import ApiOperation, json_response
from sokovan.domain.errors import Conflict, quoted
from sokovan.domain.problems import InvalidRequest, Problem
from sokovan.ports.uploads import UploadStore
from sokovan.wire.api.files import PART_BYTES_MAX, BlobView, UploadView

BINARY = "application/octet-stream"
SIZE_MAX = 1 << 50

Digest = Annotated[str, Path(pattern="^[0-9a-f]{64}$", description="The SHA-256 digest of the content.")]


class UploadRoutes:
    """Routes of uploads; everyone sees and changes their own only."""

    def __init__(self, context: ApiContext) -> None:
        self._uploads, self._store = context.dependencies.uploads, context.store

    def operations(self) -> list[ApiOperation]:
        """The operations of this resource."""
        tag = "uploads"
        return [
            ApiOperation(
                method="PUT", path="/api/v1/uploads/blobs/{digest}", endpoint=self.put_blob, tag=tag,
                answer=BlobView, fails=(409, 415), binary=True,
            ),
            ApiOperation(
                method="PUT", path="/api/v1/uploads/{digest}", endpoint=self.complete, tag=tag,
                answer=UploadView, fails=(404, 409),
            ),
        ]  # fmt: skip

    async def put_blob(
        self,
        request: Request,
        digest: Digest,
        *,
        size: Annotated[int, Query(ge=0, le=SIZE_MAX, description="The size of the whole blob.")],
        offset: Annotated[int, Query(ge=0, le=SIZE_MAX, description="Where this part begins.")] = 0,
    ) -> Response:
        """Send a part of a blob; the response says where the next part begins.

        The body is the content, at most 512 KiB of it. A blob that the server has is
        complete at once.
        """
        media = request.headers.get("content-type", "")
        if media.partition(";")[0].strip().lower() != BINARY:
            raise UnsupportedMedia(f"the body is {quoted(media)}, not {BINARY}")
        data = await request.body()
        if len(data) > PART_BYTES_MAX:
            raise InvalidRequest([Problem("body", f"has {len(data)} bytes, {PART_BYTES_MAX} is the limit of a part")])
        user = principal_of(request.scope).user
        received = await self._required().put(user, digest, size=size, offset=offset, data=data)
        return json_response(BlobView(digest=digest, size=size, received=received))

    async def complete(self, request: Request, digest: Digest) -> Response:
        """Complete the upload whose manifest is this blob.

        A manifest is JSON: `{"files": [{"path", "digest", "size", "executable"}]}`. The
        response lists the blobs that are missing; send them, and repeat the request.
        """
        principal = principal_of(request.scope)
        state = await self._required().check(principal.user, digest)
        if not state.missing:
            await self._audit(principal, digest)
        manifest = state.manifest
        return json_response(
            UploadView(id=digest, files=len(manifest.files), bytes=manifest.total_bytes, missing=list(state.missing))
        )

    async def _audit(self, principal: AuthenticatedPrincipal, digest: str) -> None:
        entry = audit_entry(principal, "upload.complete", digest)
        await self._store.run(lambda unit: unit.audit.append(entry))

    def _required(self) -> UploadStore:
        if self._uploads is None:
            raise Conflict("this server stores no uploads", hint="mount a folder, or run it in one with --workdir")
        return self._uploads
