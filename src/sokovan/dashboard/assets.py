"""The built files of the dashboard, as the build describes them in its manifest.

Only files of the manifest are served, so no path of a request reaches the disk.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
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

    @property
    def is_built(self) -> bool:
        """Whether there are files to serve."""
        return INDEX in self._names

    def find(self, name: str) -> Asset | None:
        """A file by its name in the manifest; None if there is no such file."""
        if name not in self._names:
            return None
        if name not in self._read:
            path = self._folder / name
            self._read[name] = Asset(
                content=path.read_bytes(),
                packed=path.with_name(path.name + PACKED).read_bytes(),
                media=MEDIA.get(path.suffix, "application/octet-stream"),
                immutable=name != INDEX,
            )
        return self._read[name]

    @cached_property
    def _names(self) -> frozenset[str]:
        try:
            manifest: Any = msgspec.json.decode((self._folder / MANIFEST).read_bytes())
        except (OSError, msgspec.DecodeError):
            return frozenset()
        return frozenset(str(name) for name in manifest["files"])
