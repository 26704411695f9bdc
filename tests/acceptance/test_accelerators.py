"""Sessions with accelerators on a running server: their memory, whole devices and shares."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest

from tests.acceptance.embedded import Embedded, until
from tests.acceptance.endings import ended_well

GIB = 1 << 30
DEVICES = ("GPU-aaaa-1", "GPU-bbbb-2", "GPU-cccc-3", "GPU-dddd-4")
# A fifth device is in MIG mode, and has two slices.
SPLIT, SLICES, SLICE = "GPU-eeee-5", ("MIG-aaaa-6", "MIG-bbbb-7"), "cuda.mig-1g.18gb.device"
LISTING = "".join(f"GPU {number}: NVIDIA H200 (UUID: {device})\n" for number, device in enumerate((*DEVICES, SPLIT)))
LISTING += "".join(f"  MIG 1g.18gb     Device  {number}: (UUID: {one})\n" for number, one in enumerate(SLICES))
# The first and the third device have a link of their own, and the other two.
TOPOLOGY = "".join(
    f"GPU{row}\t" + "\t".join("X" if row == to else "NV12" if row + to in {2, 4} else "SYS" for to in range(5)) + "\n"
    for row in range(5)
)
HEALTHY = "".join(f"{device}, 0, No, Not Active, None, 40, 1024, 143771, 38\n" for device in DEVICES)
HEALTHY += f"{SPLIT}, [N/A], No, Not Active, None, [N/A], 1024, 143771, 38\n"
# The program of a driver; the health of the devices is in a file beside it.
SMI = f"""#!/bin/sh
case "$1" in
*ecc*) exec cat "$0.health" ;;
topo) exec cat "$0.topology" ;;
-L) exec cat "$0.listing" ;;
-q) exit 1 ;;
esac
for device in {" ".join(DEVICES)}
do echo "$device, NVIDIA H200, 143771, 580.159.03, Disabled"
done
echo "{SPLIT}, NVIDIA H200, 143771, 580.159.03, Enabled"
"""
SHOWS = "import os, time; print(f\"[{os.environ['CUDA_VISIBLE_DEVICES']}]\", flush=True); time.sleep(600)"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """Two fake agents with eight devices and 512 GiB each."""
    server = Embedded(tmp_path_factory.mktemp("fleet"))
    with ended_well(server):
        server.start("--fake", "2x8", "--no-agent")
        yield server


@pytest.fixture(scope="module")
def sharing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """This machine with four devices that its driver's program names and sessions may share, and two slices."""
    folder = tmp_path_factory.mktemp("sharing")
    programs = folder / "programs"
    programs.mkdir()
    (programs / "nvidia-smi").write_text(SMI)
    (programs / "nvidia-smi").chmod(0o755)
    (programs / "nvidia-smi.health").write_text(HEALTHY)
    (programs / "nvidia-smi.topology").write_text(f"\tGPU0\tGPU1\tGPU2\tGPU3\tGPU4\n{TOPOLOGY}")
    (programs / "nvidia-smi.listing").write_text(LISTING)
    server = Embedded(folder, path=f"{programs}{os.pathsep}{os.environ['PATH']}")
    with ended_well(server):
        server.start("--gpu-shares", "--set", "agent.device_check_s=1")
        yield server


def end(server: Embedded, *sessions: str) -> None:
    """End sessions, and wait until other tests can have their devices."""
    for session in sessions:
        server.end(session)
    for session in sessions:
        assert server.reaches(session, "terminated")


def memory(server: Embedded, *options: str) -> int:
    """The memory of a session with these options."""
    done = server.cli("run", "-d", *options, "--", "sleep", "600")
    assert done.returncode == 0, done.stderr
    found = server.session(done.stdout.strip())["kernels"][0]["slots"]["mem"]
    server.end(done.stdout.strip())
    assert isinstance(found, int)
    return found


def test_memory_follows_the_devices_of_a_session_and_its_scaling_group_s_setting(fleet: Embedded) -> None:
    assert memory(fleet, "--gpus", "1") == 48 * GIB
    assert memory(fleet, "--gpus", "8") == 384 * GIB
    assert memory(fleet) == 8 * GIB
    assert memory(fleet, "--gpus", "1", "--mem", "1GiB") == GIB
    assert fleet.cli("scaling-group", "set", "default", "--mem-per-gpu", "10GiB").returncode == 0
    assert memory(fleet, "--gpus", "2") == 20 * GIB


def test_a_share_of_a_device_is_refused_where_only_whole_devices_are_offered(fleet: Embedded) -> None:
    done = fleet.cli("run", "--gpus", "0.5", "--", "true")
    assert done.returncode == 2
    assert "offers whole devices only (cuda.device), no shares of them" in done.stderr
    assert "--gpu-shares" in done.stderr


def test_a_kernel_sees_exactly_its_devices_whole_or_shared(sharing: Embedded) -> None:
    def started(shares: float) -> str:
        return sharing.python(SHOWS, resources={"cuda.shares": shares, "cpu": 0.2, "mem": "64MiB"})

    halves = [started(0.5), started(0.5)]
    said = [sharing.says(session, "]") for session in halves]
    device = said[0].strip("[]\n")
    assert said[0] == said[1]
    assert device in DEVICES
    # A kernel that needs a whole one gets another.
    whole = started(1)
    other = sharing.says(whole, "]").strip("[]\n")
    assert other in set(DEVICES) - {device}
    held = {one["device"]: (one["used"], one["units"]) for one in sharing.cli_json("agent", "devices")}
    shared = {one: (1000 if one in {device, other} else 0, 1000) for one in DEVICES}
    assert held == shared | dict.fromkeys(SLICES, (0, 1))
    assert f"kernel 0: {other}" in sharing.cli("session", "show", whole).stdout
    end(sharing, *halves, whole)


def test_the_devices_of_a_driver_are_found_without_a_package_for_them(sharing: Embedded) -> None:
    [agent] = sharing.cli_json("agent", "ls")
    assert agent["slots"]["cuda.shares"] == 4000
    labels = {"nvidia.model": "NVIDIA H200", "nvidia.memory-bytes": str(143771 << 20), "nvidia.driver": "580.159.03"}
    assert labels.items() <= agent["labels"].items()
    assert "nvidia.model=NVIDIA H200" in sharing.cli("agent", "show", agent["id"]).stdout
    found = {one["name"]: one for one in json.loads(sharing.cli("doctor", "--json").stdout)}
    assert found["nvidia"]["detail"] == (
        "5 x NVIDIA H200, driver 580.159.03, found by nvidia-smi; 1 in MIG mode with 2 slices"
    )


def test_a_kernel_sees_its_slice_only_and_slices_are_not_mixed_with_whole_devices(sharing: Embedded) -> None:
    def started(amount: int) -> str:
        return sharing.python(SHOWS, resources={SLICE: amount, "cpu": 0.2, "mem": "64MiB"})

    first, second = started(1), started(1)
    seen = [sharing.says(one, "]").strip("[]\n") for one in (first, second)]
    assert sorted(seen) == sorted(SLICES)
    [agent] = sharing.cli_json("agent", "ls")
    assert agent["slots"][SLICE] == 2
    shown = sharing.cli("agent", "show", agent["id"]).stdout.splitlines()
    assert [line.split()[1] for line in shown if line.startswith(SLICE)] == ["2/2"]
    assert f"kernel 0: {seen[0]}" in sharing.cli("session", "show", first).stdout
    third = started(1)
    until(lambda: SLICE in sharing.cli("why", third).stdout, what="the slot that is missing is named")
    sharing.end(third)
    end(sharing, first, second)
    mixed = sharing.cli("run", "--slot", f"{SLICE}=1", "--slot", "cuda.shares=1", "--", "true")
    assert mixed.returncode == 2
    assert (
        "a kernel cannot have cuda.shares beside it: CUDA uses whole devices or slices of one profile" in mixed.stderr
    )


def test_a_device_with_a_fault_gets_no_kernels_until_it_is_healthy_again(sharing: Embedded) -> None:
    def faults() -> dict[str, str]:
        return {one["device"]: one["fault"] for one in sharing.cli_json("agent", "devices") if one["fault"]}

    health = sharing.folder / "programs" / "nvidia-smi.health"
    held = sharing.python(SHOWS, resources={"cuda.shares": 1, "cpu": 0.2, "mem": "64MiB"})
    device = sharing.says(held, "]").strip("[]\n")
    replacement = health.with_suffix(".new")
    replacement.write_text(HEALTHY.replace(f"{device}, 0", f"{device}, 3"))
    replacement.rename(health)
    until(lambda: device in faults(), what="the fault is known")
    fault = "3 uncorrected memory errors since the driver was loaded; reset the device"
    assert faults() == {device: fault}
    figures = [(one["use_percent"], one["temperature_c"]) for one in sharing.cli_json("agent", "devices")]
    assert figures == [(40, 38)] * 4 + [(None, None)] * 2
    [agent] = sharing.cli_json("agent", "ls")
    assert f"fault of {device}" in sharing.cli("agent", "show", agent["id"]).stdout
    # Its kernel goes on, and the session says what is wrong.
    assert f"device {device} of agent {agent['id']} has a fault: {fault}" in sharing.cli("why", held).stdout
    assert sharing.session(held)["status"] == "running"
    # A session that needs all devices waits for this one.
    every = sharing.python(SHOWS, resources={"cuda.shares": 4, "cpu": 0.2, "mem": "64MiB"})
    sharing.end(held)
    named = f"device {device} of {agent['id']} is out of service: {fault}"
    until(lambda: named in sharing.cli("why", every).stdout, what="the device is named")
    replacement.write_text(HEALTHY)
    replacement.rename(health)
    assert sharing.reaches(every, "running")
    assert not faults()
    codes = [one["code"] for one in sharing.cli_json("agent", "history", agent["id"])]
    assert codes[-2:] == ["device-fault", "device-recovered"]
    end(sharing, every)


def test_a_kernel_with_several_devices_gets_those_that_are_close_together(sharing: Embedded) -> None:
    def started() -> str:
        return sharing.python(SHOWS, resources={"cuda.shares": 2, "cpu": 0.2, "mem": "64MiB"})

    pairs = [started(), started()]
    seen = {frozenset(sharing.says(one, "]").strip("[]\n").split(",")) for one in pairs}
    assert seen == {frozenset({DEVICES[0], DEVICES[2]}), frozenset({DEVICES[1], DEVICES[3]})}
    [agent] = sharing.cli_json("agent", "ls")
    assert agent["labels"]["sokovan.gpu-group.nvlink0"] == f"{DEVICES[0]},{DEVICES[2]}"
    end(sharing, *pairs)
