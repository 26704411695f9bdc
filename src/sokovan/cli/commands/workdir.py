"""The working directory of a session: the caller's, if the server sees it."""

from __future__ import annotations

import os
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
# The server refuses these to all sessions; a command that is run in one of them needs no folder.
SYSTEM_FOLDERS = frozenset(
    {"bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "run", "sbin", "sys", "usr"}
)
SYSTEM_STATE = frozenset({"backups", "lock", "log", "mail", "run", "spool"})


def chosen_workdir(text: str) -> str:
    """The absolute path of a value of --workdir; empty for none."""
    return "" if text == NONE else str(Path(text).absolute())


def sees_local_files(client: Client) -> bool:
    """Whether the server runs on this machine as this user."""
    return _local_folders(client) is not None


def _local_folders(client: Client) -> list[str] | None:
    """The roots of folders that sessions may use; None if the server does not see them."""
    mark = machine_mark() if client.endpoint.is_loopback else ""
    me = client.whoami() if mark else None
    return me.folders if me is not None and me.machine == mark else None


def with_local_workdir(body: SessionBody, client: Client, flag: str | None) -> SessionBody:
    """Use the current directory, unless one was chosen or the server does not see it.

    A server sees it if it runs on this machine as this user: then its answer has the mark
    of this machine. Links in paths of this machine are resolved: the server follows none.
    """
    is_chosen = flag is not None or body.workdir
    if is_chosen and not body.workdir and not body.mounts:
        return body
    folders = _local_folders(client)
    if folders is None:
        return body
    body = replace(body, mounts=[replace(one, source=_resolved(one.source)) for one in body.mounts])
    if is_chosen:
        return replace(body, workdir=_resolved(body.workdir) if body.workdir else "")
    here = Path.cwd()
    if is_system_folder(here):
        print_status(f"{here} is a system folder, so the session does not run in it; choose one with --workdir")
        return body
    if not any(here.is_relative_to(folder) for folder in folders):
        print_status(f"{here} is not open to sessions of this server, so the session does not run in it; use --upload")
        return body
    return replace(body, workdir=str(here))


def is_system_folder(folder: Path) -> bool:
    """Whether the server refuses a folder to all sessions."""
    parts = folder.parts[1:]
    if not parts or parts[0] in SYSTEM_FOLDERS or parts == ("var",):
        return True
    if parts[0] == "var" and parts[1] in SYSTEM_STATE:
        return True
    inside_home = {"home": parts[2:3], "root": parts[1:2]}.get(parts[0], ())
    return any(name.startswith(".") for name in inside_home)


def _resolved(path: str) -> str:
    """The path without links; one that is not plain is left for the server to refuse."""
    is_plain = path.startswith("/") and ".." not in path.split("/") and "\0" not in path
    return os.path.realpath(path) if is_plain else path
