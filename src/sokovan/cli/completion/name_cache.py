"""Cache of object names from the server, for shell completion."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

# Names younger than this are used without a request.
FRESH_S = 10.0
# Upper bound of a cache file; a page of names is smaller.
SIZE_MAX = 256 * 1024

# A name and its description.
Name = tuple[str, str]


def cache_folder(environment: Mapping[str, str]) -> Path:
    """The cache folder: under XDG_CACHE_HOME, or under ~/.cache."""
    given = environment.get("XDG_CACHE_HOME", "")
    # The XDG specification says to ignore a relative folder.
    if given and Path(given).is_absolute():
        return Path(given) / "sokovan"
    return Path(environment.get("HOME") or "~").expanduser() / ".cache" / "sokovan"


@dataclass(frozen=True, slots=True)
class NameCache:
    """Names of one kind, from one server, as one API key may see them."""

    path: Path

    @classmethod
    def of(cls, folder: Path, kind: str, *, url: str, token: str) -> NameCache:
        """The cache for a server and an API key; the file name reveals neither."""
        digest = sha256(f"{url}\n{token}".encode()).hexdigest()[:16]
        return cls(folder / f"names-{digest}-{kind}.json")

    def read(self) -> Sequence[Name]:
        """The cached names; none if the file cannot be read."""
        with contextlib.suppress(OSError, ValueError, TypeError, RecursionError):
            with self.path.open(encoding="utf-8") as file:
                cached = json.loads(file.read(SIZE_MAX))
            return [(str(name), str(note)) for name, note in cached]
        return []

    def is_fresh(self, now_s: float) -> bool:
        """Whether the cached names may be used without a request."""
        try:
            return abs(now_s - self.path.stat().st_mtime) < FRESH_S
        except OSError:
            return False

    def write(self, names: Sequence[Name]) -> None:
        """Write the cache, readable by its owner only; errors are ignored."""
        text = json.dumps(names, ensure_ascii=False)
        if len(text) > SIZE_MAX:
            return
        unfinished = self.path.with_suffix(f".{os.getpid()}")
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
            unfinished.replace(self.path)
