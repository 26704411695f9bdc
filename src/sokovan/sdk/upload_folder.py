"""The files of a folder that an upload sends.

They are those that git would not ignore, without those that `.sokovanignore` excludes. A
link is followed if it leads to a file inside the folder; any other link, and every file
that is neither regular nor a link, is an error.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from sokovan.sdk.errors import InvalidSetting
from sokovan.sdk.ignore_patterns import IgnorePatterns

IGNORE_FILE = ".sokovanignore"
FILES_MAX = 200_000
_CHUNK = 1 << 20
_GIT_LIMIT_S = 60
_COPY_HINT = "copy other files, or remove it first"
_HINT = f"exclude it with {IGNORE_FILE}"


@dataclass(frozen=True, slots=True)
class FolderFile:
    """One file of the folder: where it is, and what it was when it was read."""

    path: str
    place: Path
    digest: str
    size: int
    executable: bool


@dataclass(frozen=True, slots=True)
class UploadFolder:
    """A folder that was read, with the manifest that describes it."""

    files: tuple[FolderFile, ...]
    manifest: bytes

    @property
    def digest(self) -> str:
        """The id of the upload."""
        return hashlib.sha256(self.manifest).hexdigest()

    @property
    def total_bytes(self) -> int:
        """The size of all files."""
        return sum(one.size for one in self.files)


def read_folder(folder: Path) -> UploadFolder:
    """Read the files of a folder. Raises InvalidSetting."""
    root = Path(os.path.realpath(folder))
    if not root.is_dir():
        raise InvalidSetting(f"{folder} is not a folder", hint="give the folder to upload: --upload PATH")
    ignored = _ignore_patterns(root)
    chosen = _bounded((path for path in _listed(root) if not ignored.match(path)), f"{folder}", hint=_HINT)
    found = [one for one in (_file(root, path) for path in chosen) if one is not None]
    if not found:
        raise InvalidSetting(f"{folder} has no files to upload", hint="check .gitignore and .sokovanignore")
    return _described(found)


def read_tree(source: Path) -> UploadFolder:
    """Read a file, or every file of a folder; all paths begin with its name.

    Raises InvalidSetting.
    """
    place = Path(os.path.realpath(source))
    name = source.name if source.name not in {"", "..", "."} else place.name
    if place.is_dir():
        listed = _bounded(_walked(place, skipped=()), f"{source}", hint="copy parts of it")
    elif place.exists():
        listed = [""]
    else:
        raise InvalidSetting(f"{source} does not exist", hint="give a file or a folder of this machine")
    found = (_file(place, path, hint=_COPY_HINT) for path in listed)
    files = [replace(one, path="/".join(part for part in (name, one.path) if part)) for one in found if one is not None]
    if not files:
        raise InvalidSetting(f"{source} has no files to copy")
    return _described(files)


def _bounded(paths: Iterator[str], what: str, *, hint: str) -> list[str]:
    """The paths in order; a folder with too many is not read to its end. Raises InvalidSetting."""
    listed = sorted(islice(paths, FILES_MAX + 1))
    if len(listed) > FILES_MAX:
        raise InvalidSetting(f"{what} has more than {FILES_MAX} files, the limit", hint=hint)
    return listed


def _described(files: Sequence[FolderFile]) -> UploadFolder:
    """The files with the manifest that describes them."""
    entries = [
        {"path": one.path, "digest": one.digest, "size": one.size, "executable": one.executable} for one in files
    ]
    return UploadFolder(tuple(files), json.dumps({"files": entries}, separators=(",", ":")).encode())


def _ignore_patterns(root: Path) -> IgnorePatterns:
    try:
        return IgnorePatterns.read((root / IGNORE_FILE).read_text(encoding="utf-8").splitlines())
    except FileNotFoundError:
        return IgnorePatterns()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSetting(f"cannot read {root / IGNORE_FILE}: {error}") from error


def _listed(root: Path) -> Iterator[str]:
    """Paths below the folder: as git lists them, or all of them outside of a repository."""
    # fsmonitor: a repository must not be able to name a program that is run here.
    words = ["git", "-c", "core.fsmonitor=false", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(  # noqa: S603  # an argv list, built here
            words, cwd=root, stdin=subprocess.DEVNULL, capture_output=True, timeout=_GIT_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return _walked(root)
    if done.returncode:
        return _walked(root)
    return iter({os.fsdecode(path) for path in done.stdout.split(b"\0") if path})


def _walked(root: Path, skipped: Collection[str] = (".git",)) -> Iterator[str]:
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in skipped]
        links = [name for name in folders if Path(folder, name).is_symlink()]
        for name in (*names, *links):
            yield os.path.relpath(os.path.join(folder, name), root)  # noqa: PTH118  # for every file


def _file(root: Path, path: str, *, hint: str = _HINT) -> FolderFile | None:
    """One file; None for a folder, such as a submodule, and for one that git still lists."""
    place = root / path
    try:
        about = place.lstat()
        if stat.S_ISLNK(about.st_mode):
            target = Path(os.path.realpath(place))
            if root not in target.parents or not target.is_file():
                raise InvalidSetting(f"{path} is a link that leaves the folder or leads to no file", hint=hint)
            place, about = target, target.stat()
        if stat.S_ISDIR(about.st_mode):
            return None
        if not stat.S_ISREG(about.st_mode):
            raise InvalidSetting(f"{path or root} is neither a regular file nor a link", hint=hint)
        if not path.isprintable():
            raise InvalidSetting(f"{path!r} has unprintable characters", hint=hint)
        digest, size = _digest_of(place)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidSetting(f"cannot read {path or root}: {error.strerror or error}", hint=hint) from error
    return FolderFile(path, place, digest, size, executable=bool(about.st_mode & stat.S_IXUSR))


def _digest_of(place: Path) -> tuple[str, int]:
    found, size = hashlib.sha256(), 0
    with place.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            found.update(chunk)
            size += len(chunk)
    return found.hexdigest(), size
