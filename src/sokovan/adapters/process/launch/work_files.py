"""Files in a kernel's work folder, and checks of its mounts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath

from sokovan.adapters.process.layout import opened
from sokovan.adapters.process.shim.machine_folders import folder_failure, open_folder
from sokovan.domain.cluster.mount_roots import SYSTEM_FOLDERS, closed_folder
from sokovan.domain.commands import SCRATCH_FOLDERS, is_plain_path
from sokovan.domain.errors import quoted
from sokovan.ports.runtime import PathUnavailable, RuntimeFailure
from sokovan.wire.frames import CreateKernel, MountEntry

FOLDER_MODE = 0o755
FILE_MODE = 0o644
# Replacing these would change what the sandbox runs. In scratch folders, mounts may keep their path.
SYSTEM = SYSTEM_FOLDERS | SCRATCH_FOLDERS
_TARGET_HINT = "use a target of its own, such as /data"


def parts_below(path: str, *, what: str) -> tuple[str, ...]:
    """The parts of a path below its folder; raises RuntimeFailure if it is not."""
    parts = PurePosixPath(path).parts
    if not parts or "\0" in path or path.startswith("/") or ".." in parts:
        raise RuntimeFailure(
            f"{what} {quoted(path)} is not below the working folder",
            hint="use a relative path without ..",
        )
    return parts


def write_files(work: Path, files: Mapping[str, str]) -> None:
    """Write files below the work folder, following no link; raises RuntimeFailure."""
    for path, text in files.items():
        parts = parts_below(path, what="file")
        try:
            _write(work, parts, text.encode())
        except (OSError, UnicodeEncodeError) as error:
            raise RuntimeFailure(f"file {quoted(path)} cannot be written: {error}") from error


def _write(work: Path, parts: Sequence[str], content: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with opened_below(work, parts[:-1]) as folder:
        handle = os.open(parts[-1], flags, FILE_MODE, dir_fd=folder)
        with open(handle, "wb") as stream:  # noqa: PTH123  # a descriptor, not a path
            stream.write(content)


@contextmanager
def opened_below(work: Path, parts: Sequence[str]) -> Iterator[int]:
    """A folder below the work folder, created if missing, following no link."""
    with ExitStack() as closing:
        folder = closing.enter_context(opened(work))
        for part in parts:
            with suppress(FileExistsError):
                os.mkdir(part, FOLDER_MODE, dir_fd=folder)
            folder = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            closing.callback(os.close, folder)
        yield folder


def check_mounts(mounts: Sequence[MountEntry]) -> None:
    """Raise PathUnavailable for an unusable source or a target in a system folder."""
    for mount in mounts:
        _require_folder(mount.source, what="mount source")
        parts = PurePosixPath(mount.target).parts
        if len(parts) < 2 or (parts[1] in SYSTEM and not _is_in_place(mount, parts[1])):
            raise PathUnavailable(
                f"mount target {quoted(mount.target)} is in a system folder", hint="use a target such as /data"
            )


def _is_in_place(mount: MountEntry, top: str) -> bool:
    return top in SCRATCH_FOLDERS and mount.source == mount.target


def _require_folder(path: str, *, what: str) -> None:
    """Raise PathUnavailable unless sessions may use this folder and it has no links.

    The shim opens it again: this is for an early and clear message.
    """
    problem = closed_folder(path) if is_plain_path(path) else "is not an absolute path without . and .."
    if problem:
        raise PathUnavailable(f"the {what} {quoted(path)} {problem}")
    try:
        os.close(open_folder(path))
    except OSError as error:
        raise PathUnavailable(f"the {what} {folder_failure(path, error)}") from error


def require_not_hidden(mounts: Sequence[MountEntry], hidden: Sequence[Path]) -> None:
    """Raise PathUnavailable for a mount that would expose a hidden folder.

    Parents are refused too: mounting a home would expose the keys in it.
    """
    for mount in mounts:
        source = Path(mount.source)
        if any(place in (source, *source.parents) or source in place.parents for place in hidden):
            raise PathUnavailable(
                f"{quoted(mount.source)} contains a folder that is hidden from kernels",
                hint="mount the folder with your data, not one above it",
            )


def require_targets(launch: CreateKernel, own: Sequence[Path]) -> None:
    """Raise PathUnavailable for a mount target where a user could have put a link.

    The sandbox creates what is missing of a target with the rights of the agent, and follows
    links there: in a folder that the kernels of its user write, they could lead anywhere. The
    only user of a system has these rights already. `own` are folders of the agent: there
    are the work folders, and nothing is mounted on them.
    """
    targets = [PurePosixPath(mount.target) for mount in launch.mounts]
    written = [PurePosixPath(launch.workdir)] if launch.workdir.startswith("/") else []
    for index, target in enumerate(targets):
        place = Path(target)
        if any(folder in (place, *place.parents) or place in folder.parents for folder in own):
            raise PathUnavailable(
                f"mount target {quoted(str(target))} is in a folder of the agent, or above one", hint=_TARGET_HINT
            )
        others = [] if launch.owns_folders else [*written, *targets[:index], *targets[index + 1 :]]
        inside = next((other for other in others if other in target.parents), None)
        if inside is not None:
            raise PathUnavailable(
                f"mount target {quoted(str(target))} is inside {inside}, another folder of the kernel",
                hint=_TARGET_HINT,
            )


def require_workdir(workdir: str, hidden: Sequence[Path]) -> None:
    """Raise PathUnavailable for an absolute working directory that cannot be used."""
    if not workdir.startswith("/"):
        return
    _require_folder(workdir, what="working directory")
    folder = Path(workdir)
    if any(place in (folder, *folder.parents) for place in hidden):
        raise PathUnavailable(
            f"the working directory {quoted(workdir)} is in a folder that is hidden from kernels",
            hint="choose another folder with --workdir, or --workdir none",
        )


def require_in_place(mounts: Sequence[MountEntry]) -> None:
    """Raise RuntimeFailure for a mount at another path than its own.

    Without a sandbox nothing can be mounted: kernels see the machine's own folders.
    """
    for mount in mounts:
        if os.path.realpath(mount.target) != os.path.realpath(mount.source):
            raise RuntimeFailure(
                f"{quoted(mount.source)} cannot be mounted at {quoted(mount.target)} without a sandbox",
                hint="install bubblewrap, or use the source path as the target",
            )
