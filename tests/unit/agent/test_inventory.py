"""What an agent says that it has."""

from __future__ import annotations

from pathlib import Path

import pytest

from sokovan.agent import inventory as inventory_module
from sokovan.agent import machine
from sokovan.agent.devices.found_devices import NO_DEVICES, FoundDevices
from sokovan.agent.inventory import (
    InventoryOptions,
    agent_name,
    architecture_name,
    empty_table,
    kernels_default,
    read_reserve,
    take_inventory,
)
from sokovan.domain.errors import InvalidName, InvalidSlots
from sokovan.domain.ids import is_name
from sokovan.domain.records import Device
from sokovan.domain.slots import ResourceSlot


@pytest.fixture(autouse=True)
def machine_of_four(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "cpu_millicores", lambda _root: 4000)
    monkeypatch.setattr(machine, "memory_bytes", lambda _root: 8 << 30)
    monkeypatch.setattr(inventory_module, "nvidia_devices", lambda: NO_DEVICES)


def test_a_machine_gives_its_processors_and_its_memory() -> None:
    inventory = take_inventory(InventoryOptions())

    assert dict(inventory.slots.items()) == {"cpu": 4000, "mem": 8 << 30}
    assert is_name(inventory.agent_id)
    assert inventory.architecture


def test_devices_are_counted_and_simulated_ones_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    real = (Device("GPU-0", "cuda.device"),)
    monkeypatch.setattr(inventory_module, "nvidia_devices", lambda: FoundDevices(real, {"nvidia.model": "H200"}))
    inventory = take_inventory(InventoryOptions(fake_gpus=2, labels={"rack": "r1", "nvidia.model": "mine"}))

    assert inventory.slots["cuda.device"] == 3
    assert [device.device_id for device in inventory.devices] == ["GPU-0", "fake-0", "fake-1"]
    assert inventory.labels == {"rack": "r1", "nvidia.model": "mine"}


def test_devices_are_offered_in_shares_if_asked_for() -> None:
    inventory = take_inventory(InventoryOptions(fake_gpus=2, gpu_shares=True))

    assert (inventory.slots["cuda.shares"], inventory.slots["cuda.device"]) == (2000, 0)
    assert inventory.devices[1] == Device("fake-1", "cuda.shares", units=1000)


def test_slices_are_slots_of_their_own_and_never_shared() -> None:
    slices = tuple(Device(f"MIG-{number}", "cuda.mig-1g.10gb.device") for number in range(2))
    real = FoundDevices((Device("GPU-0", "cuda.device"), *slices))
    inventory = take_inventory(InventoryOptions(gpu_shares=True), real=real)

    assert inventory.devices == (Device("GPU-0", "cuda.shares", units=1000), *slices)
    assert (inventory.slots["cuda.mig-1g.10gb.device"], inventory.slots["cuda.shares"]) == (2, 1000)


def test_groups_of_close_devices_are_without_those_in_mig_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = {"nvlink0": frozenset({"GPU-0", "GPU-1", "GPU-2"}), "nvlink1": frozenset({"GPU-2", "GPU-3"})}
    monkeypatch.setattr(inventory_module, "device_closeness", lambda _devices: groups)
    real = FoundDevices(gpus=("GPU-0", "GPU-1", "GPU-2", "GPU-3"), partitioned=frozenset({"GPU-2"}))

    assert take_inventory(InventoryOptions(), real=real).labels == {"sokovan.gpu-group.nvlink0": "GPU-0,GPU-1"}


def test_what_is_kept_for_the_machine_is_not_given() -> None:
    inventory = take_inventory(InventoryOptions(reserved={"cpu": 500, "mem": 9 << 30}))

    assert dict(inventory.slots.items()) == {"cpu": 3500}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("cuda.device=1", "cuda.device cannot be reserved"),
        ("cpu=1000000", "the machine has only cpu="),
        ("mem=9000TiB", "mem"),
        ("cpu", "has no '='"),
        ("cpu=1 cpu=1", "given twice"),
    ],
)
def test_only_a_part_of_processors_and_memory_is_reserved(text: str, problem: str) -> None:
    with pytest.raises(InvalidSlots, match=problem):
        read_reserve(text)


def test_a_reserve_is_read_in_the_notation_of_slots() -> None:
    assert read_reserve("") == ResourceSlot({})
    assert read_reserve("cpu=0.001,mem=1MiB") == ResourceSlot({"cpu": 1, "mem": 1 << 20})


def test_a_shard_is_a_name() -> None:
    assert take_inventory(InventoryOptions(shard="east")).shard == "east"
    with pytest.raises(InvalidName):
        take_inventory(InventoryOptions(shard="no name"))


def test_a_configured_name_is_used_or_refused() -> None:
    assert take_inventory(InventoryOptions(agent_id="rack/a:1")).agent_id == "rack/a:1"
    with pytest.raises(InvalidName):
        take_inventory(InventoryOptions(agent_id="two words"))


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("gpu-07.example.org", "gpu-07.example.org"),
        ("Böse Maschine!", "B-se-Maschine"),
        ("", "agent"),
        ("---", "agent"),
        ("x" * 100, "x" * 64),
    ],
)
def test_an_agent_is_named_after_its_host(host: str, name: str) -> None:
    assert agent_name(host) == name
    assert is_name(agent_name(host))


def test_one_processor_has_one_name() -> None:
    assert architecture_name("AMD64") == "x86_64"
    assert architecture_name("arm64") == "aarch64"
    assert architecture_name("riscv64") == "riscv64"
    assert architecture_name("") == "unknown"


def test_an_agent_begins_with_what_it_has_and_nothing_in_it(tmp_path: Path) -> None:
    inventory = take_inventory(InventoryOptions(fake_gpus=1, kernels_max=3), root=tmp_path)
    table = empty_table(inventory)

    assert table.capacity == inventory.slots
    assert table.device_units == {"fake-0": 1}
    assert table.kernels_max == 3
    assert not table.kernels


def test_an_agent_without_a_limit_of_its_own_runs_64_kernels_for_each_cpu(tmp_path: Path) -> None:
    inventory = take_inventory(InventoryOptions(reserved={"cpu": 1 << 40}), root=tmp_path)
    assert inventory.kernels_max == 64
    assert (kernels_default(1), kernels_default(2500)) == (64, 192)
