"""Builds again after each change of a source, until it is interrupted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Event

LOOK_S = 0.5
# The build reads these; packages that it installs are not looked at.
SOURCES = ("src", "package.json", "package-lock.json", "tsconfig.json", "index.html", "icon.svg")


def stamps(web: Path) -> dict[Path, int]:
    """When each source was written last."""
    paths = [path for name in SOURCES for path in ((web / name).rglob("*") if (web / name).is_dir() else [web / name])]
    found: dict[Path, int] = {}
    for path in paths:
        try:
            found[path] = path.stat().st_mtime_ns
        except FileNotFoundError:  # an editor replaces it
            continue
    return found


def watch(web: Path, build: Callable[[], object], *, wait: Callable[[], bool] | None = None) -> None:
    """Build now, and whenever a source has changed, as long as `wait` says so."""
    built: Mapping[Path, int] = {}
    going = True
    while going:
        seen = stamps(web)
        if seen != built:
            # Before the build: what changes meanwhile is built next.
            built = seen
            build()
        going = (wait or _pause)()


def _pause() -> bool:
    return not Event().wait(LOOK_S)
