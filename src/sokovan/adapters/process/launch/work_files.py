"""What a kernel finds when it starts: files in its work folder, and its mounts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath

from sokovan.adapters.process.layout import opened
from sokovan.domain.errors import quoted
from sokovan.ports.runtime import RuntimeFailure
from sokovan.wire.frames import MountEntry

FOLDER_MODE = 0o755
FILE_MODE = 0o644
# Where the system itself lives: who could put something else there would choose what the sandbox runs.
SYSTEM = frozenset(
    {"bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "run", "sbin", "sys", "tmp", "usr", "var"}
)
# What lies here may be shown where it is: nothing that the sandbox runs comes from there.
SCRATCH = frozenset({"tmp", "var"})


def parts_below(path: str, *, what: str) -> tuple[str, ...]:
    """The parts of a path that stays below its folder; raises RuntimeFailure."""
    parts = PurePosixPath(path).parts
    if not parts or "\0" in path or path.startswith("/") or ".." in parts:
        raise RuntimeFailure(
            f"{what} {quoted(path)} does not lie below the working folder",
            hint="name it by a relative path without ..",
        )
    return parts


def write_files(work: Path, files: Mapping[str, str]) -> None:
    """Write files below the work folder, through no link; raises RuntimeFailure."""
    for path, text in files.items():
        parts = parts_below(path, what="file")
        try:
            _write(work, parts, text.encode())
        except (OSError, UnicodeEncodeError) as error:
            raise RuntimeFailure(f"file {quoted(path)} cannot be written: {error}") from error


def _write(work: Path, parts: Sequence[str], content: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with _opened_below(work, parts[:-1]) as folder:
        handle = os.open(parts[-1], flags, FILE_MODE, dir_fd=folder)
        with open(handle, "wb") as stream:  # noqa: PTH123  # it is open already; only its number is known
            stream.write(content)


@contextmanager
def _opened_below(work: Path, parts: Sequence[str]) -> Iterator[int]:
    """A folder below the work folder, made if it is missing, reached through no link."""
    with ExitStack() as closing:
        folder = closing.enter_context(opened(work))
        for part in parts:
            with suppress(FileExistsError):
                os.mkdir(part, FOLDER_MODE, dir_fd=folder)
            folder = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            closing.callback(os.close, folder)
        yield folder


def check_mounts(mounts: Sequence[MountEntry]) -> None:
    """Raise RuntimeFailure for a mount that is not there or covers the system."""
    for mount in mounts:
        if not Path(mount.source).exists():
            raise RuntimeFailure(f"mount source {quoted(mount.source)} is not on this machine")
        parts = PurePosixPath(mount.target).parts
        if len(parts) < 2 or (parts[1] in SYSTEM and not _stays_in_place(mount, parts[1])):
            raise RuntimeFailure(
                f"mount target {quoted(mount.target)} is a place of the system", hint="choose a place such as /data"
            )


def _stays_in_place(mount: MountEntry, top: str) -> bool:
    return top in SCRATCH and mount.source == mount.target


def require_not_hidden(mounts: Sequence[MountEntry], hidden: Sequence[Path]) -> None:
    """Raise RuntimeFailure for a mount that would show what is hidden from kernels.

    Above it is as bad as below: whoever mounts a home sees the keys that lie in it.
    """
    for mount in mounts:
        source = Path(os.path.realpath(mount.source))
        if any(place in (source, *source.parents) or source in place.parents for place in hidden):
            raise RuntimeFailure(
                f"{quoted(mount.source)} holds what no kernel may see",
                hint="mount the folder with your data, not one above it",
            )


def require_in_place(mounts: Sequence[MountEntry]) -> None:
    """Raise RuntimeFailure for a mount that is to appear elsewhere than it is.

    A kernel without a sandbox sees the machine as it is, and nothing can be mounted for it.
    """
    for mount in mounts:
        if os.path.realpath(mount.target) != os.path.realpath(mount.source):
            raise RuntimeFailure(
                f"{quoted(mount.source)} cannot be mounted at {quoted(mount.target)} without a sandbox",
                hint="install bubblewrap, or mount it where it is",
            )
