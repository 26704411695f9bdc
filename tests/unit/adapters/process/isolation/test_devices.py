"""A kernel sees the nodes of its own devices."""

from __future__ import annotations

from pathlib import Path

import pytest

from sokovan.adapters.process.isolation.devices import cuda_devices, device_nodes
from sokovan.wire.frames import CreateKernel

ABOUT = "Model: \t\t NVIDIA H200\nGPU UUID: \t {uuid}\nBus Location: \t 0000:00:06.0\nDevice Minor: \t {number}\n"


@pytest.fixture
def driver(tmp_path: Path) -> Path:
    """Three devices, whose numbers are not in the order of the bus."""
    for place, (uuid, number) in enumerate((("GPU-a", 2), ("GPU-b", 0), ("GPU-c", 1))):
        folder = tmp_path / f"0000:0{place}:00.0"
        folder.mkdir()
        (folder / "information").write_text(ABOUT.format(uuid=uuid, number=number))
    return tmp_path


def test_devices_by_uuid_have_the_node_that_the_driver_names(driver: Path) -> None:
    assert device_nodes(("GPU-a",), driver) == ["nvidia2"]
    assert device_nodes(("GPU-c", "GPU-b"), driver) == ["nvidia1", "nvidia0"]


def test_devices_by_number_are_their_own_nodes(driver: Path) -> None:
    assert device_nodes(("1", "0", "1"), driver) == ["nvidia1", "nvidia0"]


def test_a_device_that_the_driver_does_not_know_has_no_node(driver: Path) -> None:
    assert device_nodes(("GPU-z", "GPU-b"), driver) == ["nvidia0"]
    (driver / "0000:01:00.0" / "information").write_text("GPU UUID: GPU-b\nDevice Minor: none\n")
    assert device_nodes(("GPU-b",), driver) == []
    assert device_nodes(("GPU-b",), driver / "none") == []


def test_a_slice_has_its_own_nodes_and_not_those_of_other_slices(driver: Path) -> None:
    slices = {"MIG-a": ("nvidia2", "nvidia-caps/nvidia-cap12"), "MIG-b": ("nvidia2", "nvidia-caps/nvidia-cap21")}
    assert device_nodes(("MIG-a",), driver, slices) == ["nvidia2", "nvidia-caps/nvidia-cap12"]
    assert device_nodes(("MIG-a", "MIG-b"), driver, slices) == [*slices["MIG-a"], "nvidia-caps/nvidia-cap21"]
    assert device_nodes(("MIG-z", "GPU-b"), driver, slices) == ["nvidia0"]


def test_the_slices_of_a_kernel_are_devices_of_it() -> None:
    devices: dict[str, tuple[str, ...]] = {"cuda.mig-1g.10gb.device": ("MIG-a", "MIG-b"), "rocm.device": ("x",)}
    assert cuda_devices(CreateKernel("k", 1, "s", "host", ("true",), devices=devices)) == ("MIG-a", "MIG-b")


def test_the_devices_of_a_kernel_are_those_it_has_and_those_it_shares() -> None:
    devices: dict[str, tuple[str, ...]] = {"cuda.device": ("GPU-a",), "cuda.shares": ("GPU-b",), "rocm.device": ("x",)}
    assert cuda_devices(CreateKernel("k", 1, "s", "host", ("true",), devices=devices)) == ("GPU-a", "GPU-b")
