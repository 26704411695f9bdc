"""A package of plugins, installed as pip would, and a server that finds it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from tests.acceptance.embedded import Embedded
from tests.acceptance.fast_timings import FastTimings


def install_package(folder: Path, name: str, source: str, entry_points: Mapping[str, Mapping[str, str]]) -> None:
    """Write a package of one module and its metadata, with entry points by group and name."""
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (folder / f"{name}.py").write_text(source, encoding="utf-8")
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    lines = [
        line
        for group, points in entry_points.items()
        for line in (f"[{group}]", *(f"{point} = {name}:{attribute}" for point, attribute in points.items()))
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


class ServerWithPackages(Embedded):
    """A server whose environment has the packages of a folder."""

    def __init__(self, folder: Path, packages: Path, *, timings: FastTimings | None = None) -> None:
        super().__init__(folder, timings=timings)
        self._packages = packages

    @property
    def environment(self) -> dict[str, str]:
        """That of every server, and the packages."""
        paths = (str(self._packages), os.environ.get("PYTHONPATH", ""))
        return {**super().environment, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}
