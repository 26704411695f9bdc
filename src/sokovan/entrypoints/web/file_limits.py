"""The number of files that this process may have open."""

from __future__ import annotations

import resource

# Beyond this, raising the limit has no use, and a table of descriptors costs memory.
OPEN_FILES_MAX = 1 << 16


def raise_open_files() -> int:
    """Raise the soft limit of open files; returns the limit in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < soft:
        return hard
    wanted = OPEN_FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES_MAX)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return OPEN_FILES_MAX if soft == resource.RLIM_INFINITY else soft
