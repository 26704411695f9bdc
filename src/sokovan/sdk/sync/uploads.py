# Generated from sdk/aio/uploads.py by `make docs`; do not edit.
"""Uploads of the sync client."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import BinaryIO

from sokovan.sdk.core import upload_calls
from sokovan.sdk.errors import InvalidSetting
from sokovan.sdk.sync.connection import Connection
from sokovan.sdk.upload_folder import UploadFolder, read_folder
from sokovan.wire.api.files import PART_BYTES_MAX, UploadView

# Called with the bytes sent so far and the bytes to send.
Progress = Callable[[int, int], None]


def _ignore(_sent: int, _total: int) -> None:
    """Report no progress."""


def _add(progress: Progress, before: int, total: int, sent: int) -> None:
    progress(before + sent, total)


class Uploads:
    """Folders that sessions run in; files that the server has are not sent."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def send(self, folder: str | Path, *, progress: Progress = _ignore) -> UploadView:
        """Send a folder; the id of its upload is the option `upload` of a session.

        Left out are files that git would ignore, and those that `.sokovanignore` excludes.
        """
        return self.send_read(read_folder(Path(folder)), progress=progress)

    def send_read(self, folder: UploadFolder, *, progress: Progress = _ignore) -> UploadView:
        """Send a folder that was read."""
        self._send_blob(folder.digest, io.BytesIO(folder.manifest), len(folder.manifest), lambda _: None)
        view = self._connection.send(upload_calls.complete(folder.digest))
        missing = {digest: each for each in folder.files for digest in [each.digest] if digest in set(view.missing)}
        total, done = sum(each.size for each in missing.values()), 0
        progress(done, total)
        for each in missing.values():
            with each.place.open("rb") as content:
                self._send_blob(each.digest, content, each.size, partial(_add, progress, done, total))
            done += each.size
        if not missing:
            return view
        view = self._connection.send(upload_calls.complete(folder.digest))
        if view.missing:
            raise InvalidSetting("files of the folder changed while it was sent", hint="send it again")
        return view

    def _send_blob(self, digest: str, content: BinaryIO, size: int, progress: Callable[[int], None]) -> None:
        offset = -1
        while offset < size:
            offset = max(offset, 0)
            content.seek(offset)
            part = content.read(min(PART_BYTES_MAX, size - offset))
            if len(part) < min(PART_BYTES_MAX, size - offset):
                raise InvalidSetting("a file of the folder became shorter while it was sent", hint="send it again")
            answer = self._connection.send(upload_calls.put_blob(digest, part, size=size, offset=offset))
            if answer.received == offset and size:
                raise InvalidSetting("the server does not accept the rest of a file", hint="send it again")
            offset = answer.received
            progress(offset)
            if not size:
                return
