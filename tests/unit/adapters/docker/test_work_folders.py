"""The folders of a container: its own, its upload's and mounts, at their paths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sokovan.adapters.docker.work_folders import prepared_folders
from sokovan.adapters.process.layout import TEMPORARY, WORK, KernelLayout
from sokovan.domain.ids import KernelId, SessionId
from sokovan.ports.runtime import RuntimeFailure
from sokovan.wire.frames import CreateKernel, MountEntry, OutputTerms


def layout_of(root: Path) -> KernelLayout:
    """A root with the empty folders of one kernel."""
    layout = KernelLayout(root)
    layout.prepare()
    for below in (WORK, TEMPORARY):
        (layout.kernels / "k-1" / below).mkdir(parents=True)
    return layout


def launch(**changes: Any) -> CreateKernel:
    """A kernel."""
    return CreateKernel(KernelId("k"), 1, SessionId("s"), "train", ("python",), **changes)


def test_a_container_sees_its_folders_at_their_own_paths(tmp_path: Path) -> None:
    layout = layout_of(tmp_path / "root")
    given = launch(files={"a/b": "text"}, output=OutputTerms("ann", 1, 1, 1), workdir="a")
    found = prepared_folders(given, layout, "k-1", hidden=(), account=None)
    work = layout.kernels / "k-1" / WORK
    assert (work / "a/b").read_text() == "text"
    assert found.folder == str(work / "a")
    assert [one.target for one in found.binds] == [str(work), str(layout.output_folder("k-1")), "/tmp"]  # noqa: S108  # in the container
    assert all(not one.read_only for one in found.binds)
    assert found.environment["HOME"] == str(work)


def test_folders_of_the_agent_are_not_mounted(tmp_path: Path) -> None:
    layout = layout_of(tmp_path / "root")
    given = launch(mounts=(MountEntry(str(tmp_path / "root"), "/data"),))
    with pytest.raises(RuntimeFailure, match="hidden"):
        prepared_folders(given, layout, "k-1", hidden=(tmp_path / "root",), account=None)


def test_volumes_of_an_image_are_folders_of_the_kernel(tmp_path: Path) -> None:
    layout = layout_of(tmp_path / "root")
    data = tmp_path / "data"
    data.mkdir()
    given = launch(mounts=(MountEntry(str(data), "/data"),))
    wanted = ("/var/lib/db/", "/data", "/tmp", "/var/lib/db")  # noqa: S108  # in the container
    found = prepared_folders(given, layout, "k-1", hidden=(), account=None, volumes=wanted)
    own = layout.kernels / "k-1" / TEMPORARY
    [volume] = [bind for bind in found.binds if bind.target == "/var/lib/db"]
    assert Path(volume.source).is_relative_to(own)
    assert list(Path(volume.source).iterdir()) == []
    assert sorted(bind.target for bind in found.binds).count("/data") == 1
    assert len(found.binds) == len({bind.target for bind in found.binds})
