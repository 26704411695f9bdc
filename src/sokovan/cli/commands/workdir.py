"""The working directory of a session: the caller's, if the server sees it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sokovan.cli.output import print_status
from sokovan.sdk.local_folder import with_current_folder

if TYPE_CHECKING:
    from sokovan.sdk.sync.client import Client
    from sokovan.wire.api.sessions import SessionBody


def with_local_workdir(body: SessionBody, client: Client, flag: str | None) -> SessionBody:
    """Use the current directory, unless one was chosen or the server does not see it."""
    if flag is not None or body.workdir or not client.sees_local_files():
        return body
    found = with_current_folder(body)
    if not found.workdir:
        print_status(f"{Path.cwd()} is a system folder, so the session does not run in it; choose one with --workdir")
    return found
