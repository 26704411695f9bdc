"""The folder of the caller in which a session works, where the server sees it too."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sokovan.sdk.machine import machine_mark

if TYPE_CHECKING:
    from sokovan.wire.api.sessions import SessionBody
    from sokovan.wire.api.system import WhoamiView

# The value of the option `workdir` for the session's own, empty folder.
NONE = "none"
# The server refuses these to all sessions; a command that is run in one of them needs no folder.
SYSTEM_FOLDERS = frozenset(
    {"bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "run", "sbin", "sys", "usr"}
)
SYSTEM_STATE = frozenset({"backups", "lock", "log", "mail", "run", "spool"})


def chosen_workdir(text: str) -> str:
    """The absolute path of a value of the option; empty for none."""
    return "" if text == NONE else str(Path(text).absolute())


def is_system_folder(folder: Path) -> bool:
    """Whether the server refuses a folder to all sessions."""
    parts = folder.parts[1:]
    if not parts or parts[0] in SYSTEM_FOLDERS or parts == ("var",):
        return True
    if parts[0] == "var" and parts[1] in SYSTEM_STATE:
        return True
    inside_home = {"home": parts[2:3], "root": parts[1:2]}.get(parts[0], ())
    return any(name.startswith(".") for name in inside_home)


def with_current_folder(body: SessionBody, folders: Sequence[str]) -> SessionBody:
    """The request with the current folder to work in, if `folders` allow it."""
    here = Path.cwd()
    is_open = not is_system_folder(here) and any(here.is_relative_to(folder) for folder in folders)
    return replace(body, workdir=str(here)) if is_open else body


def without_links(body: SessionBody) -> SessionBody:
    """The request with paths of this machine resolved: the server follows no links."""
    mounts = [replace(one, source=_resolved(one.source)) for one in body.mounts]
    return replace(body, mounts=mounts, workdir=_resolved(body.workdir))


def _resolved(path: str) -> str:
    """The path without links; one that is not plain is left for the server to refuse."""
    is_plain = path.startswith("/") and ".." not in path.split("/") and "\0" not in path
    return os.path.realpath(path) if is_plain else path


def is_of_this_machine(caller: WhoamiView) -> bool:
    """Whether a server runs on this machine as this user: its answer has the mark."""
    return bool(caller.machine) and caller.machine == machine_mark()
