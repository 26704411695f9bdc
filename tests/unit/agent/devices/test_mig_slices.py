"""Slices of devices, in the forms that the driver's user guide and its program's XML show.

The listing, the XML and the nodes are those of NVIDIA's MIG user guide and of public recordings;
the fields around them were seen on an H200 with driver 580, whose MIG mode was off.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sokovan.agent.devices.device_faults import LOST, DeviceReading
from sokovan.agent.devices.found_devices import FoundDevices, found_devices
from sokovan.agent.devices.mig_slices import (
    MigSlice,
    SliceHealth,
    listed_slices,
    read_instances,
    read_listing,
    with_slice_faults,
    with_slices,
)
from sokovan.agent.devices.nvidia_smi import PROGRAM
from sokovan.domain.records import Device

WHOLE, SPLIT = "GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77", "GPU-e86cb44c-6756-fd30-cd4a-1e6da3caf9b0"
LARGE = "MIG-c7384736-a75d-5afc-978f-d2f1294409fd"
SMALL, OTHER = "MIG-a28ad590-3fda-56dd-84fc-0a0b96edc58d", "MIG-f3ac1b2a-0d3a-5a0e-a0f5-6b1f1b6f2b10"
LISTING = f"""\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: {WHOLE})
GPU 1: NVIDIA A100-SXM4-40GB (UUID: {SPLIT})
  MIG 3g.20gb     Device  0: (UUID: {LARGE})
  MIG 1g.5gb+me   Device  1: (UUID: {SMALL})
  MIG 1g.5gb      Device  2: (UUID: {OTHER})
"""
MIG_DEVICE = """
    <mig_device><index>{0}</index><gpu_instance_id>{1}</gpu_instance_id>
      <compute_instance_id>{2}</compute_instance_id></mig_device>"""
XML = f"""<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
  <gpu id="00000000:07:00.0"><uuid>{WHOLE}</uuid><minor_number>0</minor_number>
    <mig_mode><current_mig>Disabled</current_mig></mig_mode><mig_devices>None</mig_devices></gpu>
  <gpu id="00000000:0F:00.0"><uuid>{SPLIT}</uuid><minor_number>1</minor_number>
    <mig_mode><current_mig>Enabled</current_mig></mig_mode>
    <mig_devices>{MIG_DEVICE.format(0, 2, 0)}{MIG_DEVICE.format(1, 9, 0)}{MIG_DEVICE.format("N/A", 3, 0)}</mig_devices>
  </gpu>
</nvidia_smi_log>
"""
FOUND = found_devices([WHOLE, SPLIT], [SPLIT], labels={}, source="x")


@pytest.fixture
def capabilities(tmp_path: Path) -> Path:
    """The driver's files about the nodes of two GPU instances; one of them is incomplete."""
    folder = tmp_path / "capabilities"
    for place, number in (("gi2", 12), ("gi2/ci0", 13), ("gi9", 21)):
        access = folder / "gpu1" / "mig" / place / "access"
        access.parent.mkdir(parents=True)
        access.write_text(f"DeviceFileMinor: {number}\nDeviceFileMode: 292\nDeviceFileModify: 1\n")
    return folder


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A PATH with a program that lists the slices and describes their device."""
    (tmp_path / "listing").write_text(LISTING)
    (tmp_path / "xml").write_text(XML)
    program = tmp_path / PROGRAM
    program.write_text(
        f'#!/bin/sh\n[ "$*" = -L ] && exec cat {tmp_path}/listing\n'
        f'[ "$*" = "-q -x -i {SPLIT}" ] && exec cat {tmp_path}/xml\nexit 1\n'
    )
    program.chmod(0o755)
    return f"{tmp_path}:/usr/bin:/bin"


def test_a_listing_names_slices_by_profile_below_their_device() -> None:
    assert read_listing(LISTING) == [
        MigSlice(LARGE, "cuda.mig-3g.20gb.device", SPLIT, 0),
        MigSlice(SMALL, "cuda.mig-1g.5gb-me.device", SPLIT, 1),
        MigSlice(OTHER, "cuda.mig-1g.5gb.device", SPLIT, 2),
    ]


def test_lines_of_other_forms_and_slices_without_a_device_are_left_out() -> None:
    assert read_listing("No devices found.\n  MIG 1g.5gb  Device  0: (UUID: MIG-a)\n") == []
    assert (
        read_listing("GPU 0: x (UUID: GPU-a)\n  MIG 1g.5gb Device: (UUID: MIG-a)\n  MIG ?! Device 0: (UUID: M\n") == []
    )
    repeated = "GPU 0: x (UUID: GPU-a)\n" + "  MIG 1g.5gb Device 0: (UUID: MIG-a)\n" * 2
    assert [one.device_id for one in read_listing(repeated)] == ["MIG-a"]


def test_a_device_in_mig_mode_is_offered_as_its_slices_and_not_as_a_whole(path: str, capabilities: Path) -> None:
    found = with_slices(FOUND, path, capabilities)
    assert found.devices == (
        Device(WHOLE, "cuda.device"),
        Device(LARGE, "cuda.mig-3g.20gb.device"),
        Device(SMALL, "cuda.mig-1g.5gb-me.device"),
        Device(OTHER, "cuda.mig-1g.5gb.device"),
    )
    assert found.parents == dict.fromkeys((LARGE, SMALL, OTHER), SPLIT)


def test_a_slice_has_the_node_of_its_device_and_of_its_two_instances_or_none(path: str, capabilities: Path) -> None:
    # Without the node of its compute instance the second gets no node at all; the driver describes no third.
    nodes = with_slices(FOUND, path, capabilities).nodes
    assert nodes == {LARGE: ("nvidia1", "nvidia-caps/nvidia-cap12", "nvidia-caps/nvidia-cap13"), SMALL: ()}


def test_slices_of_a_device_that_is_not_in_mig_mode_are_not_offered(path: str) -> None:
    assert with_slices(FoundDevices(gpus=(WHOLE,)), path).devices == ()


def test_descriptions_of_another_form_have_no_instances() -> None:
    assert list(read_instances(XML, SPLIT)) == [0, 1]
    assert read_instances(XML, WHOLE) == {} == read_instances("<gpu", SPLIT)


def test_a_machine_without_the_program_lists_no_slices(tmp_path: Path) -> None:
    assert listed_slices(str(tmp_path)) == []


def test_a_slice_has_the_fault_of_its_device_and_one_of_its_own_if_it_is_gone() -> None:
    parents = {LARGE: SPLIT, SMALL: SPLIT, "MIG-x": "GPU-gone"}
    listed = [one for one in read_listing(LISTING) if one.device_id == LARGE]
    healthy = with_slice_faults(DeviceReading({SPLIT: ""}), parents, listed)
    assert healthy.listed == {SPLIT: "", LARGE: "", SMALL: LOST, "MIG-x": LOST}
    hot = with_slice_faults(DeviceReading({SPLIT: "it is too hot"}), parents, listed)
    assert hot.listed[LARGE] == hot.listed[SMALL] == "it is too hot"
    failed = DeviceReading(failure="the program hangs")
    assert with_slice_faults(failed, parents, listed) == failed


def test_the_health_of_slices_is_read_with_that_of_devices(path: str) -> None:
    health = SliceHealth({LARGE: SPLIT}, lambda: DeviceReading({SPLIT: ""}), path)
    assert health.read().listed == {SPLIT: "", LARGE: ""}
    assert SliceHealth({}, lambda: DeviceReading({SPLIT: ""})).read().listed == {SPLIT: ""}
