"""Which uploads a caller may use."""

from __future__ import annotations

from sokovan.domain.errors import ObjectNotFound
from sokovan.ports.uploads import UploadStore


async def require_upload(uploads: UploadStore | None, user: str, upload: str) -> None:
    """Note the use of an upload. Raises ObjectNotFound.

    An upload of another user counts as not found, and so does any where none are kept.
    """
    if uploads is None:
        raise ObjectNotFound(what="upload", name=upload)
    await uploads.use(user, upload)
