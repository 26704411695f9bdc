"""The folders of a kernel by the paths it sees, and where they are on the machine."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from sokovan.adapters.process.files.file_access import checked_parts
from sokovan.adapters.process.layout import LAUNCH, WORK, KernelLayout, folder_name, opened
from sokovan.adapters.process.shim.main import STATE
from sokovan.adapters.process.shim.state_files import read_record
from sokovan.domain.errors import quoted
from sokovan.domain.ids import KernelId
from sokovan.ports.kernel_files import OUTPUT, FileMissing, FileRefused, KernelPath


@dataclass(frozen=True, slots=True)
class KernelFolder:
    """A folder that the kernel sees at `seen` and that is at `place` on the machine.

    With `account` it is not the agent's to give: it is used with the rights of that number.
    """

    seen: PurePosixPath
    place: Path
    read_only: bool = False
    account: int | None = None


@dataclass(frozen=True, slots=True)
class FoundPath:
    """A path as the parts below one of the kernel's folders."""

    folder: KernelFolder
    parts: tuple[str, ...]
    is_output: bool = False


def found_path(layout: KernelLayout, wanted: KernelPath) -> FoundPath:
    """The folder that contains a path of a kernel. Raises FileRefused, FileMissing."""
    name = folder_name(KernelId(wanted.kernel_id), wanted.attempt)
    parts = checked_parts(wanted.path)
    output = _output_folder(layout, name)
    if parts[:1] == (OUTPUT,) and not wanted.path.startswith(("/", "./")):
        if not output.place.is_dir():
            raise FileMissing(f"kernel {wanted.kernel_id} has no output here, or it was removed")
        return FoundPath(output, parts[1:], is_output=True)
    folders, here = _folders(layout, name, output)
    path = PurePosixPath("/", *parts) if wanted.path.startswith("/") else here.joinpath(*parts)
    inside = [folder for folder in folders if path.is_relative_to(folder.seen)]
    if not inside:
        seen = ", ".join(sorted({str(folder.seen) for folder in folders}))
        raise FileRefused(f"{quoted(wanted.path)} is outside the folders of the session: {seen}")
    closest = max(inside, key=lambda folder: len(folder.seen.parts))
    return FoundPath(closest, path.relative_to(closest.seen).parts, is_output=closest is output)


def _output_folder(layout: KernelLayout, name: str) -> KernelFolder:
    place = layout.output_folder(name)
    return KernelFolder(PurePosixPath(place), place)


def _folders(layout: KernelLayout, name: str, output: KernelFolder) -> tuple[list[KernelFolder], PurePosixPath]:
    """The folders of a kernel, and the one it works in."""
    place = layout.kernels / name
    try:
        with opened(place) as folder:
            # A kernel that starts has no state, and its folders may not have its account yet.
            record = (read_record(folder, LAUNCH) if read_record(folder, STATE) else None) or {}
    except OSError:
        raise FileMissing(f"the kernel of {name} is not on this machine any more") from None
    here = str(record.get("folder") or "")
    if not here:
        raise FileMissing(f"the kernel of {name} has not started yet")
    account = _account(place / WORK)
    mounts = [
        KernelFolder(PurePosixPath(target), Path(source), bool(read_only), account)
        for target, source, read_only in record.get("mounts") or []
    ]
    own = [
        KernelFolder(PurePosixPath(each), Path(each), account=None if layout.root in Path(each).parents else account)
        for each in dict.fromkeys((here, str(place / WORK)))
    ]
    return [*own, output, *mounts], PurePosixPath(here)


def _account(work: Path) -> int | None:
    """The account of a kernel, to which its work folder belongs; None if it is the agent's."""
    owner = work.stat(follow_symlinks=False).st_uid
    return None if owner == os.geteuid() else owner
