"""Files of kernels: slow copies, their limits, and hidden folders; see the contract too."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from sokovan.adapters.process.files import process_files
from sokovan.adapters.process.files.process_files import PAGE_FILES_MAX
from sokovan.domain.ids import KernelId
from sokovan.domain.owners.uploads import UploadFile
from sokovan.ports.kernel_files import FileMissing, FileRefused, KernelPath
from sokovan.ports.runtime import RuntimeFailure
from tests.unit.adapters.process.files.kernels import Machine


def at(path: str) -> KernelPath:
    return KernelPath(KernelId("k1"), 1, path)


async def test_a_slow_copy_is_reported_until_it_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path)
    work = machine.kernel()
    released = asyncio.Event()
    parts = machine.uploads.parts

    async def slow(reference: str) -> AsyncGenerator[UploadFile | bytes, None]:
        await released.wait()
        async for part in parts(reference):
            yield part

    monkeypatch.setattr(machine.uploads, "parts", slow)
    monkeypatch.setattr(process_files, "PLACING_S", 0.01)
    upload = machine.uploads.add({"x": b"1"})
    assert not (await machine.files.put(at(""), upload)).done
    released.set()
    async with asyncio.timeout(60):
        while not (placed := await machine.files.put(at(""), upload)).done:
            pass
    assert placed.path == str(work / "x")
    assert [path.name for path in machine.layout.uploads.iterdir()] == []


async def test_too_many_copies_at_once_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path)
    machine.kernel()
    monkeypatch.setattr(process_files, "PLACINGS_MAX", 0)
    with pytest.raises(FileRefused, match="under way"):
        await machine.files.put(at("x"), machine.uploads.add({"x": b"1"}))


async def test_a_copy_that_fails_leaves_nothing_and_may_be_repeated(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    work = machine.kernel()
    machine.files._uploads._source = None
    for _ in range(2):
        with pytest.raises(RuntimeFailure, match="cannot fetch"):
            await machine.files.put(at("x"), "0")
    assert list(work.iterdir()) == []


async def test_a_refused_path_is_not_fetched_for(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.kernel()
    with pytest.raises(FileRefused):
        await machine.files.put(at("../x"), "unknown")


async def test_hidden_folders_below_the_working_directory_stay_hidden(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "keys").mkdir(parents=True)
    (home / "keys" / "token").write_text("secret")
    machine = Machine(home / "data", hidden=(home / "keys",))
    machine.kernel(folder=home)
    (home / "mine").write_text("mine")
    listing = await machine.files.list(at("."), after="", files_max=100)
    assert [one.path for one in listing.files] == ["mine"]
    for path in ("keys/token", "data/kernels/k1-1/launch.json"):
        with pytest.raises(FileRefused, match="hidden"):
            await machine.files.read(at(path), offset=0, limit=10, mark="")


@pytest.mark.slow
async def test_long_lists_have_pages(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    work = machine.kernel()
    for number in range(PAGE_FILES_MAX + 1):
        (work / f"{number:05}").touch()
    first = await machine.files.list(at(""), after="", files_max=5000)
    assert (len(first.files), first.more) == (PAGE_FILES_MAX, True)
    second = await machine.files.list(at(""), after=first.files[-1].path, files_max=5000)
    assert (len(second.files), second.more) == (1, False)


async def test_output_outlives_the_folder_of_its_kernel(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.kernel()
    machine.wrote("k1", {"a": 3})
    machine.end(ended_ms=5000)
    machine.layout.note_end("k1-1", 5000)
    machine.layout.discard("k1-1")
    assert (await machine.files.read(at("output/a"), offset=0, limit=10, mark="")).data == b"xxx"
    with pytest.raises(FileMissing):
        await machine.files.read(at("a"), offset=0, limit=10, mark="")
