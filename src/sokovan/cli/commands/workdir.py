"""The working directory of a session: the caller's, if the server sees it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sokovan.cli.output import print_status
from sokovan.sdk.local_folder import is_system_folder

if TYPE_CHECKING:
    from sokovan.sdk.sync.client import Client
    from sokovan.wire.api.sessions import SessionBody


def with_local_workdir(body: SessionBody, client: Client, flag: str | None) -> SessionBody:
    """Use the current directory, unless one was chosen or the server does not see it."""
    is_chosen = flag is not None or bool(body.workdir)
    found = client.with_local_paths(body, is_chosen=is_chosen)
    if not is_chosen and not found.workdir and client.sees_local_files():
        here = Path.cwd()
        if is_system_folder(here):
            print_status(f"{here} is a system folder, so the session does not run in it; choose one with --workdir")
        else:
            print_status(f"{here} is not open to sessions here, so the session does not run in it; use --upload")
    return found
