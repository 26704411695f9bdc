"""The folder of an upload on an agent: complete or absent, checked, once per session."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from sokovan.adapters.process.launch.upload_folders import UNUSED_AGE_MS, UploadFolders
from sokovan.adapters.process.layout import KernelLayout
from sokovan.domain.owners.uploads import UploadFile
from sokovan.ports.runtime import RuntimeFailure


class Source:
    """Files that are sent as they are."""

    def __init__(self, *parts: UploadFile | bytes) -> None:
        self._parts, self.asked = parts, 0

    async def parts(self, reference: str) -> AsyncGenerator[UploadFile | bytes, None]:
        """Each part."""
        assert reference == "o/d"
        self.asked += 1
        for part in self._parts:
            yield part


def file(path: str, content: bytes, **changes: bool) -> UploadFile:
    return UploadFile(path, hashlib.sha256(content).hexdigest(), len(content), **changes)


def trees(tmp_path: Path, source: Source | None) -> tuple[UploadFolders, KernelLayout]:
    layout = KernelLayout(tmp_path)
    layout.prepare()
    return UploadFolders(tmp_path, source), layout


async def test_the_kernels_of_a_session_fetch_once(tmp_path: Path) -> None:
    source = Source(file("a/run", b"abcd", executable=True), b"ab", b"cd", file("empty", b""))
    subject, layout = trees(tmp_path, source)
    await asyncio.gather(*(subject.prepare("s", "o/d") for _ in range(3)))
    folder = layout.upload_folder("s")
    assert (folder / "a" / "run").read_bytes() == b"abcd"
    assert os.access(folder / "a" / "run", os.X_OK)
    assert (folder / "empty").read_bytes() == b""
    assert source.asked == 1
    assert [entry.name for entry in layout.uploads.iterdir()] == [folder.name]


@pytest.mark.parametrize(
    "parts",
    [
        (file("a", b"abcd"), b"abc"),
        (file("a", b"abcd"), b"abcx"),
        (file("a", b"abcd"), b"abcde"),
        (b"abcd",),
        (file("a", b""), file("a", b"")),
    ],
)
async def test_content_that_does_not_fit_leaves_no_folder(
    tmp_path: Path, parts: tuple[UploadFile | bytes, ...]
) -> None:
    subject, layout = trees(tmp_path, Source(*parts))
    with pytest.raises(RuntimeFailure):
        await subject.prepare("s", "o/d")
    assert list(layout.uploads.iterdir()) == []


async def test_an_agent_without_a_source_refuses(tmp_path: Path) -> None:
    subject, _ = trees(tmp_path, None)
    with pytest.raises(RuntimeFailure, match="cannot fetch"):
        await subject.prepare("s", "o/d")


async def test_old_folders_of_sessions_without_kernels_are_removed(tmp_path: Path) -> None:
    subject, layout = trees(tmp_path, Source(file("a", b"")))
    for session in ("live", "ended", "new"):
        await subject.prepare(session, "o/d")
    for session in ("live", "ended"):
        os.utime(layout.upload_folder(session), (0, 0))
    now_ms = layout.upload_folder("new").stat().st_mtime_ns // 1_000_000
    subject.collect({"live"}, now_ms + UNUSED_AGE_MS)
    assert {entry.name for entry in layout.uploads.iterdir()} == {"live", "new"}
