"""Paths of a kernel, in the folders that it sees."""

from __future__ import annotations

from pathlib import Path

import pytest

from sokovan.adapters.process.files.kernel_folders import found_path
from sokovan.domain.ids import KernelId
from sokovan.ports.kernel_files import FileMissing, FileRefused, KernelPath
from tests.unit.adapters.process.files.kernels import Machine


def at(path: str, kernel: str = "k1") -> KernelPath:
    return KernelPath(KernelId(kernel), 1, path)


def test_a_path_is_found_in_the_closest_folder(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "root")
    here, data = tmp_path / "project", tmp_path / "data"
    home = machine.kernel(folder=here, mounts=(("/data", str(data), True), (f"{here}/in", str(data / "in"), False)))
    found = found_path(machine.layout, at("a/b"))
    assert (found.folder.place, found.parts) == (here, ("a", "b"))
    mounted = found_path(machine.layout, at("/data/x"))
    assert (mounted.folder.place, mounted.parts, mounted.folder.read_only) == (data, ("x",), True)
    assert found_path(machine.layout, at("in/x")).folder.place == data / "in"
    assert found_path(machine.layout, at(f"{home}/x")).folder.place == home


def test_the_output_is_found_by_its_name_and_by_its_variable(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.kernel()
    for path in ("output/a", f"{machine.output()}/a"):
        found = found_path(machine.layout, at(path))
        assert (found.folder.place, found.parts, found.is_output) == (machine.output(), ("a",), True)
    assert not found_path(machine.layout, at("./output/a")).is_output


def test_other_folders_and_other_kernels_are_refused(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.kernel()
    other = machine.kernel("k2")
    with pytest.raises(FileRefused, match="outside the folders"):
        found_path(machine.layout, at(str(other)))
    with pytest.raises(FileMissing, match="no output"):
        found_path(machine.layout, at("output", "k3"))
    with pytest.raises(FileMissing, match="not on this machine"):
        found_path(machine.layout, at("x", "k3"))


def test_a_kernel_that_was_not_started_has_no_files(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    work = machine.kernel()
    (work.parent / "launch.json").write_text("{}")
    with pytest.raises(FileMissing, match="not started"):
        found_path(machine.layout, at("x"))


def test_a_kernel_whose_start_is_under_way_has_no_files_yet(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    work = machine.kernel()
    (work.parent / "state.json").unlink()
    with pytest.raises(FileMissing, match="not started"):
        found_path(machine.layout, at("x"))
