"""The built files of the dashboard, as the build describes them in its manifest.

Only files of the manifest are served, so no path of a request reaches the disk. Files that are
built while the server runs are served from then on.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

STATIC = Path(__file__).parent / "static"
MANIFEST = "manifest.json"
INDEX = "index.html"
MEDIA = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
PACKED = ".gz"


@dataclass(frozen=True, slots=True)
class Asset:
    """A file, and the same compressed; `immutable` if its name has its digest."""

    content: bytes
    packed: bytes
    media: str
    immutable: bool


class Assets:
    """The files of the dashboard; none if it has not been built."""

    def __init__(self, folder: Path = STATIC) -> None:
        self._folder = folder
        self._read: dict[str, Asset] = {}
        self._names: frozenset[str] = frozenset()
        self._written_ns = 0

    @property
    def is_built(self) -> bool:
        """Whether there are files to serve; looks whether they were built again."""
        self._refresh()
        return INDEX in self._names

    def find(self, name: str) -> Asset | None:
        """A file by its name in the manifest; None if there is no such file."""
        if not self._names:
            self._refresh()
        if name not in self._names:
            return None
        if name not in self._read:
            path = self._folder / name
            try:
                content, packed = path.read_bytes(), path.with_name(path.name + PACKED).read_bytes()
            except FileNotFoundError:  # it is being built again
                return None
            self._read[name] = Asset(
                content=content,
                packed=packed,
                media=MEDIA.get(path.suffix, "application/octet-stream"),
                immutable=name != INDEX,
            )
        return self._read[name]

    def _refresh(self) -> None:
        """Take over a new manifest, which a build writes after all other files."""
        path = self._folder / MANIFEST
        try:
            written_ns = path.stat().st_mtime_ns
            if written_ns == self._written_ns:
                return
            manifest: Any = msgspec.json.decode(path.read_bytes())
        except (OSError, msgspec.DecodeError):
            return
        self._read.clear()
        self._names, self._written_ns = frozenset(str(name) for name in manifest["files"]), written_ns
