"""The working directory of a session: the caller's, if the server sees it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sokovan.cli.output import print_status
from sokovan.sdk.machine import machine_mark

if TYPE_CHECKING:
    from sokovan.sdk.sync.client import Client
    from sokovan.wire.api.sessions import SessionBody

# A value of --workdir: the session's own, empty folder.
NONE = "none"
# The server refuses these; a command that is run in one of them needs no folder.
SYSTEM_FOLDERS = frozenset(
    {"bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "run", "sbin", "sys", "usr"}
)


def chosen_workdir(text: str) -> str:
    """The absolute path of a value of --workdir; empty for none."""
    return "" if text == NONE else str(Path(text).absolute())


def sees_local_files(client: Client) -> bool:
    """Whether the server runs on this machine as this user."""
    mark = machine_mark() if client.endpoint.is_loopback else ""
    return bool(mark) and client.whoami().machine == mark


def with_local_workdir(body: SessionBody, client: Client, flag: str | None) -> SessionBody:
    """Use the current directory, unless one was chosen or the server does not see it.

    A server sees it if it runs on this machine as this user: then its answer has the mark
    of this machine.
    """
    if flag is not None or body.workdir or not sees_local_files(client):
        return body
    here = Path.cwd()
    if len(here.parts) < 2 or here.parts[1] in SYSTEM_FOLDERS:
        print_status(f"{here} is a system folder, so the session does not run in it; choose one with --workdir")
        return body
    return replace(body, workdir=str(here))
