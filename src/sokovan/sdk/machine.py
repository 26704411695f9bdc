"""A mark of the files that a process sees: its machine, its mounts and its user."""

from __future__ import annotations

import os
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_MOUNTS = Path("/proc/self/ns/mnt")


def machine_mark() -> str:
    """Equal for processes of one user that see the same files; empty if unknown.

    The boot id distinguishes machines, the mount namespace containers, and the digest keeps
    both private.
    """
    try:
        parts = (_BOOT_ID.read_text(encoding="ascii").strip(), str(_MOUNTS.stat().st_ino), str(os.geteuid()))
    except OSError:
        return ""
    import hashlib  # noqa: PLC0415  # slow to load, and most commands need no mark

    return hashlib.sha256("/".join(parts).encode()).hexdigest()[:32]
