"""What an agent says that it has."""

from __future__ import annotations

from pathlib import Path

import pytest

from sokovan.agent import inventory as inventory_module
from sokovan.agent import machine
from sokovan.agent.inventory import InventoryOptions, agent_name, architecture_name, empty_holdings, take_inventory
from sokovan.domain.errors import InvalidName
from sokovan.domain.ids import is_name
from sokovan.domain.records import Device


@pytest.fixture(autouse=True)
def machine_of_four(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "cpu_millicores", lambda _root: 4000)
    monkeypatch.setattr(machine, "memory_bytes", lambda _root: 8 << 30)
    monkeypatch.setattr(inventory_module, "nvidia_devices", lambda: ((), {}))


def test_a_machine_gives_its_processors_and_its_memory() -> None:
    inventory = take_inventory(InventoryOptions())

    assert dict(inventory.slots.items()) == {"cpu": 4000, "mem": 8 << 30}
    assert is_name(inventory.agent_id)
    assert inventory.architecture


def test_devices_are_counted_and_simulated_ones_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    real = (Device("GPU-0", "cuda.device"),)
    monkeypatch.setattr(inventory_module, "nvidia_devices", lambda: (real, {"nvidia.model": "H200"}))
    inventory = take_inventory(InventoryOptions(fake_gpus=2, labels={"rack": "r1", "nvidia.model": "mine"}))

    assert inventory.slots["cuda.device"] == 3
    assert [device.device_id for device in inventory.devices] == ["GPU-0", "fake-0", "fake-1"]
    assert inventory.labels == {"rack": "r1", "nvidia.model": "mine"}


def test_what_is_kept_for_the_machine_is_not_given() -> None:
    inventory = take_inventory(InventoryOptions(reserved={"cpu": 500, "mem": 9 << 30}))

    assert dict(inventory.slots.items()) == {"cpu": 3500}


def test_a_name_that_somebody_chose_is_taken_or_refused() -> None:
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
    holdings = empty_holdings(inventory)

    assert holdings.capacity == inventory.slots
    assert holdings.device_units == {"fake-0": 1}
    assert holdings.kernels_max == 3
    assert not holdings.kernels
