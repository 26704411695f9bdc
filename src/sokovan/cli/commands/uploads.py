"""`--upload`: sends the user's folder to the server before a session is submitted."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sokovan.cli import formatting
from sokovan.cli.commands.workdir import with_local_workdir
from sokovan.cli.output import print_status
from sokovan.sdk.environment import SystemEnvironment
from sokovan.sdk.errors import InvalidSetting
from sokovan.sdk.local_folder import NONE

if TYPE_CHECKING:
    from sokovan.sdk.sync.client import Client
    from sokovan.wire.api.sessions import SessionBody

REPORT_EVERY_S = 1.0


def with_folder(
    body: SessionBody, client: Client, *, upload: str | None, workdir: str | None, beside: Path | None = None
) -> SessionBody:
    """The request with the user's folder, by the flags --upload and --workdir.

    A relative `workdir` of a spec file is a folder `beside` that file: the session works
    in it if the server sees it, and otherwise in a copy. With `none` it has a folder of its own.
    """
    if body.workdir == NONE:
        body, workdir = replace(body, workdir=""), NONE if upload is None else None
    if upload is not None and (workdir is not None or body.workdir):
        raise InvalidSetting("--upload and --workdir exclude each other", hint="give one of them")
    if upload is not None:
        return with_upload(body, client, upload)
    if body.workdir and not Path(body.workdir).is_absolute():
        found = with_absolute_workdir(body, beside)
        if client.sees_local_files():
            return found
        return with_upload(replace(body, workdir=""), client, str(found.workdir))
    return with_local_workdir(body, client, workdir)


def with_absolute_workdir(body: SessionBody, beside: Path | None) -> SessionBody:
    """The request with a relative `workdir` made absolute. Raises InvalidSetting."""
    if body.workdir == NONE:
        return replace(body, workdir="")
    if not body.workdir or Path(body.workdir).is_absolute():
        return body
    folder = Path(os.path.realpath((beside or Path.cwd()) / body.workdir))
    if not folder.is_dir():
        raise InvalidSetting(f"workdir: {folder} is not a folder", hint="name one relative to the spec file")
    return replace(body, workdir=str(folder))


def folder_of(file: str | None) -> Path | None:
    """The folder of a spec file; None for standard input and without a file."""
    return None if file in {None, "-"} else Path(str(file)).parent


def with_upload(body: SessionBody, client: Client, folder: str) -> SessionBody:
    """Send a folder; the session runs in a copy of it."""
    from sokovan.sdk.upload_folder import read_folder  # noqa: PLC0415  # most sessions have no upload

    content = read_folder(Path(folder))
    size = formatting.amount("mem", content.total_bytes)
    report = TransferProgress(f"uploading {folder}")
    view = client.uploads.send_read(content, progress=report)
    print_status(f"uploaded {folder}: {len(content.files)} files, {size}; {report.in_words()}")
    return replace(body, upload=view.id)


class TransferProgress:
    """Prints how much was copied, at most once a second."""

    def __init__(self, what: str) -> None:
        self._what, self._total, self._clock = what, 0, SystemEnvironment()
        self._next_s = self._clock.now_s() + REPORT_EVERY_S

    def __call__(self, sent: int, total: int) -> None:
        """Report the bytes copied so far."""
        self._total = total
        now_s = self._clock.now_s()
        if now_s >= self._next_s and sent < total:
            self._next_s = now_s + REPORT_EVERY_S
            print_status(f"{self._what}: {formatting.amount('mem', sent)} of {formatting.amount('mem', total)}")

    def in_words(self) -> str:
        """How much was sent in all."""
        return f"{formatting.amount('mem', self._total)} sent" if self._total else "the server had all of it"
