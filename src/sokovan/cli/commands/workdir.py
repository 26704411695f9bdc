"""The working directory of a session: the caller's, if the server sees it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sokovan.cli.output import print_status
from sokovan.sdk.workdir import current_folder

if TYPE_CHECKING:
    from sokovan.sdk.sync.client import Client
    from sokovan.wire.api.sessions import SessionBody


def with_local_workdir(body: SessionBody, client: Client, flag: str | None) -> SessionBody:
    """Use the current directory, unless one was chosen or the server does not see it."""
    if flag is not None or body.workdir or not client.sees_local_files():
        return body
    here = current_folder()
    if not here:
        print_status(f"{Path.cwd()} is a system folder, so the session does not run in it; choose one with --workdir")
    return replace(body, workdir=here)
