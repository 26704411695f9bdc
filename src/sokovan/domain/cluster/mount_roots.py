"""The folders of agents that sessions may mount or work in.

A scaling group lists roots; a folder is allowed beneath one of them. On a system with one
user, the folders of that user are allowed without a list. Agents resolve a folder without
following links, so that its path is where it is and can be decided on here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sokovan.domain.checks import require_tuple
from sokovan.domain.commands import is_plain_path
from sokovan.domain.errors import InvalidSpec, listed
from sokovan.domain.owners.tenancy import Owner

ROOTS_MAX = 64
# The roots of a system with one user: every folder but those that are refused to all.
OWN_FOLDERS = ("/",)
# A part of a root that stands for a name of the session's owner.
USER_PART, GROUP_PART = "{user}", "{group}"
# Interfaces, secrets and programs of the system.
SYSTEM_FOLDERS = frozenset(
    {"bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "run", "sbin", "sys", "usr"}
)
# Sockets, mail, logs and queued jobs of the system.
SYSTEM_STATE = frozenset({"backups", "lock", "log", "mail", "run", "spool"})
_HOMES = "home"
_HOME_OF_ROOT = "root"


def require_mount_roots(roots: tuple[str, ...], *, what: str) -> None:
    """Require a bounded list of folders that may be mounted. Raises InvalidSpec."""
    require_tuple(roots, str, what=what, field="mount_roots")
    if len(roots) > ROOTS_MAX:
        problem = f"must be at most {ROOTS_MAX} folders"
        raise InvalidSpec(what=what, field="mount_roots", value=len(roots), problem=problem)
    for root in roots:
        problem = closed_folder(root) if is_plain_path(root) else "must be an absolute path without . or .. in it"
        if problem:
            raise InvalidSpec(what=what, field="mount_roots", value=root, problem=problem)


def closed_folder(path: str) -> str:
    """Why a folder is closed to all sessions, whatever the roots; empty if it is not."""
    parts = _parts(path)
    if not parts or parts[0] in SYSTEM_FOLDERS or parts == ["var"]:
        return "is a system folder"
    if parts[0] == "var" and parts[1] in SYSTEM_STATE:
        return "is a system folder"
    inside_home = {_HOMES: parts[2:3], _HOME_OF_ROOT: parts[1:2]}.get(parts[0], [])
    if any(name.startswith(".") for name in inside_home):
        return "is a folder for keys and settings of its user"
    return ""


def roots_of(roots: Iterable[str], owner: Owner) -> tuple[str, ...]:
    """The roots for sessions of an owner, whose names stand for one folder each."""
    found = []
    for root in roots:
        used = {part: name for part, name in ((USER_PART, owner.user), (GROUP_PART, owner.group)) if part in root}
        for part, name in used.items():
            root = root.replace(part, name)  # noqa: PLW2901  # one name after the other
        # The name `ada/sets` would be a folder of another user.
        found += [root] if not any("/" in name for name in used.values()) else []
    return tuple(found)


def is_beneath(path: str, roots: Sequence[str]) -> bool:
    """Whether a folder is one of these roots, or beneath one."""
    place = _parts(path)
    return any(place[: len(above)] == above for above in map(_parts, roots))


def folder_problem(path: str, roots: Sequence[str], *, where: str) -> str:
    """Why a session may not use a folder; empty if it may. `where` has the roots."""
    closed = closed_folder(path)
    if closed:
        return f"{path} {closed} and cannot be used by sessions"
    if is_beneath(path, roots):
        return ""
    allowed = f"those beneath {listed(roots)}" if roots else "none"
    return f"{path} may not be used; folders that {where} allows: {allowed}"


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]
