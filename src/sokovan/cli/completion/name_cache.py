"""Names that a server told us before, in the user's cache."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

# So long a name is believed without asking again.
FRESH_S = 10.0
# A file of ours is never larger: a page of names.
SIZE_MAX = 256 * 1024

# A name, and what to say about it.
Name = tuple[str, str]


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Where the user's caches are: under XDG_CACHE_HOME, or under ~/.cache."""
    given = environment.get("XDG_CACHE_HOME", "")
    # A relative folder is to be ignored, says the specification.
    if given and Path(given).is_absolute():
        return Path(given) / "sokovan"
    return Path(environment.get("HOME") or "~").expanduser() / ".cache" / "sokovan"


@dataclass(frozen=True, slots=True)
class NameCache:
    """The names of one kind, as one server told them to the owner of one key."""

    path: Path

    @classmethod
    def of(cls, folder: Path, kind: str, *, url: str, token: str) -> NameCache:
        """The memory for a server and a key; neither can be read from its name."""
        whose = sha256(f"{url}\n{token}".encode()).hexdigest()[:16]
        return cls(folder / f"names-{whose}-{kind}.json")

    def recall(self) -> Sequence[Name]:
        """What is kept; nothing if that cannot be read."""
        with contextlib.suppress(OSError, ValueError, TypeError, RecursionError):
            with self.path.open(encoding="utf-8") as file:
                kept = json.loads(file.read(SIZE_MAX))
            return [(str(name), str(note)) for name, note in kept]
        return []

    def is_fresh(self, now_s: float) -> bool:
        """Whether what is kept is to be believed."""
        try:
            return abs(now_s - self.path.stat().st_mtime) < FRESH_S
        except OSError:
            return False

    def keep(self, names: Sequence[Name]) -> None:
        """Write names down for their owner only; where that fails, no harm is done."""
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
