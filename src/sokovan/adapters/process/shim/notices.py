"""Files of a kernel: the notice of its eviction, and its reports of checkpoints.

They are in a folder below the work folder. The kernel may write anything there, or replace it:
nothing is followed, and nothing is read without a limit.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

# Below the folder of a kernel.
PARTS = ("work", ".sokovan")
NOTICE = "notice.json"
CHECKPOINT = "checkpoint.json"
STEP_MAX = 2**53
_READ_MAX = 4096
_FOLDER_MODE = 0o755
_FILE_MODE = 0o644
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FRESH = f".{NOTICE}.new"


def make_folder(place: int) -> None:
    """Create the folder of these files below that of a kernel; raises OSError."""
    with _opened(place, create=True):
        pass


def write_notice(place: int, text: str) -> None:
    """Write the notice of an eviction, whole or not at all; raises OSError."""
    with _opened(place, create=True) as folder:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_FRESH, dir_fd=folder)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(_FRESH, flags, _FILE_MODE, dir_fd=folder)
        try:
            os.write(handle, text.encode())
            os.fchmod(handle, _FILE_MODE)  # the kernel may run under another account
        finally:
            os.close(handle)
        os.rename(_FRESH, NOTICE, src_dir_fd=folder, dst_dir_fd=folder)


def read_checkpoint(place: int) -> dict[str, Any] | None:
    """The last checkpoint that a kernel reported; None without one.

    It has `at_ms`, `step` and `done`. Its time is that of the file, so that an empty one is a report, too.
    """
    try:
        with _opened(place) as folder:
            # NONBLOCK: opening a pipe would block.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            handle = os.open(CHECKPOINT, flags, dir_fd=folder)
    except OSError:
        return None
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            return None
        said = os.read(handle, _READ_MAX)
    except OSError:
        return None
    finally:
        os.close(handle)
    return {"at_ms": max(0, status.st_mtime_ns // 1_000_000), **_content(said)}


def is_done(place: int) -> bool:
    """Whether a kernel reported that nothing is left to do."""
    found = read_checkpoint(place)
    return found is not None and found["done"]


def _content(said: bytes) -> dict[str, Any]:
    try:
        content = json.loads(said)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        content = {}
    step = content.get("step")
    known = isinstance(step, int) and not isinstance(step, bool) and 0 <= step <= STEP_MAX
    return {"step": step if known else None, "done": content.get("done") is True}


@contextlib.contextmanager
def _opened(place: int, *, create: bool = False) -> Iterator[int]:
    """The folder of these files; raises OSError."""
    folder = place
    try:
        for part in PARTS:
            if create:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, _FOLDER_MODE, dir_fd=folder)
            below = os.open(part, _FOLDER, dir_fd=folder)
            if folder != place:
                os.close(folder)
            folder = below
        yield folder
    finally:
        if folder != place:
            os.close(folder)
