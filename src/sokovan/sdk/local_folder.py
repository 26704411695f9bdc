"""The folder of the caller in which a session works, where the server sees it too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sokovan.sdk.machine import machine_mark

if TYPE_CHECKING:
    from sokovan.wire.api.sessions import SessionBody
    from sokovan.wire.api.tenancy import WhoamiView

# The value of the option `workdir` for the session's own, empty folder.
NONE = "none"
# The server refuses these; a command that is run in one of them needs no folder.
SYSTEM_FOLDERS = frozenset(
    {"bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "run", "sbin", "sys", "usr"}
)


def chosen_workdir(text: str) -> str:
    """The absolute path of a value of the option; empty for none."""
    return "" if text == NONE else str(Path(text).absolute())


def current_folder() -> str:
    """The current folder; empty if sessions may not work in it."""
    here = Path.cwd()
    return "" if len(here.parts) < 2 or here.parts[1] in SYSTEM_FOLDERS else str(here)


def with_current_folder(body: SessionBody) -> SessionBody:
    """The request with the current folder to work in."""
    return replace(body, workdir=current_folder())


def is_of_this_machine(caller: WhoamiView) -> bool:
    """Whether a server runs on this machine as this user: its answer has the mark."""
    return bool(caller.machine) and caller.machine == machine_mark()
