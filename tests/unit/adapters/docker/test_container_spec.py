"""The description of a container: amounts, labels, and no privilege."""

from __future__ import annotations

from typing import Any

from sokovan.adapters.docker.container_spec import (
    Bind,
    ContainerFolders,
    ContainerPolicy,
    container_body,
    container_name,
)
from sokovan.adapters.docker.engine.session_networks import SessionNetwork
from sokovan.domain.ids import KernelId, SessionId
from sokovan.wire.frames import CreateKernel

BINDS = (Bind("/w", "/w"), Bind("/d", "/data", read_only=True))
FOLDERS = ContainerFolders({"HOME": "/w", "PATH": "/of/the/agent"}, "/w", BINDS)


def body(policy: ContainerPolicy | None = None, **changes: Any) -> dict[str, Any]:
    """The body for a small kernel."""
    launch = CreateKernel(KernelId("k"), 2, SessionId("s"), "train:1", ("python", "-c", "pass"), **changes)
    return container_body(launch, policy=policy or ContainerPolicy(), folders=FOLDERS, user="7:7", runtime="r")


def test_a_container_has_no_privilege_and_a_read_only_root() -> None:
    host = body()["HostConfig"]
    assert (host["CapDrop"], host["SecurityOpt"], host["Privileged"]) == (["ALL"], ["no-new-privileges"], False)
    assert host["ReadonlyRootfs"]
    assert not body(ContainerPolicy(read_only_root=False))["HostConfig"]["ReadonlyRootfs"]
    assert body()["User"] == "7:7"


def test_a_kernel_without_a_command_runs_that_of_its_image() -> None:
    assert (body()["Entrypoint"], body()["Cmd"]) == (["python"], ["-c", "pass"])
    launch = CreateKernel(KernelId("k"), 2, SessionId("s"), "nim:1", ())
    found = container_body(launch, policy=ContainerPolicy(), folders=FOLDERS, user="7:7", runtime="r")
    assert {"Entrypoint", "Cmd"} & set(found) == set()


def test_slots_are_limits() -> None:
    host = body(slots={"cpu": 1500, "mem": 1 << 30}, processes_max=50)["HostConfig"]
    assert (host["NanoCpus"], host["Memory"], host["MemorySwap"]) == (1_500_000_000, 1 << 30, 1 << 30)
    assert (host["ShmSize"], host["PidsLimit"]) == (1 << 29, 50)


def test_a_process_of_a_container_has_the_files_and_dumps_of_one_of_the_machine() -> None:
    limits = {one["Name"]: one["Hard"] for one in body(ContainerPolicy(open_files=777))["HostConfig"]["Ulimits"]}
    assert limits == {"nofile": 777, "core": 0}


def test_more_cpus_than_the_machine_has_are_all_of_them() -> None:
    assert body(ContainerPolicy(cpus=2), slots={"cpu": 9000})["HostConfig"]["NanoCpus"] == 2_000_000_000


def test_labels_carry_kernel_attempt_session_runtime_and_incarnation() -> None:
    labels = body()["Labels"]
    assert labels == {
        "sokovan.runtime": "r",
        "sokovan.kernel": "k",
        "sokovan.attempt": "2",
        "sokovan.session": "s",
        "sokovan.incarnation": "0",
    }
    assert body(incarnation=7)["Labels"]["sokovan.incarnation"] == "7"


def test_the_path_is_that_of_the_image_unless_the_session_sets_one() -> None:
    assert body()["Env"] == ["HOME=/w", "NVIDIA_VISIBLE_DEVICES=void"]
    assert "PATH=/mine" in body(environment={"PATH": "/mine"})["Env"]


def test_neither_image_nor_session_chooses_devices_by_variable() -> None:
    """NVIDIA's runtime as an engine's default gives what the variable names, and images name all."""
    wanted: dict[str, Any] = {"environment": {"NVIDIA_VISIBLE_DEVICES": "all"}}
    assert "NVIDIA_VISIBLE_DEVICES=void" in body(**wanted)["Env"]
    granted = body(**wanted, devices={"cuda.device": ("GPU-1", "GPU-2")})["Env"]
    assert [one for one in granted if one.startswith("NVIDIA")] == ["NVIDIA_VISIBLE_DEVICES=GPU-1,GPU-2"]


def test_the_health_check_of_an_image_is_not_run() -> None:
    assert body()["Healthcheck"] == {"Test": ["NONE"]}


def test_an_isolated_kernel_has_no_network() -> None:
    assert body()["HostConfig"]["NetworkMode"] == "host"
    assert body(isolated_network=True)["HostConfig"]["NetworkMode"] == "none"


def test_devices_are_requested_by_their_ids_and_fake_ones_are_not() -> None:
    [sliced] = body(devices={"cuda.mig-1g.10gb.device": ("MIG-1",)})["HostConfig"]["DeviceRequests"]
    assert sliced["DeviceIDs"] == ["MIG-1"]
    [request] = body(devices={"cuda.device": ("GPU-1", "0")})["HostConfig"]["DeviceRequests"]
    assert request["DeviceIDs"] == ["GPU-1", "0"]
    assert "DeviceRequests" not in body(devices={"cuda.device": ("fake-0",)})["HostConfig"]


def test_folders_are_bound_with_their_rights() -> None:
    mounts = body()["HostConfig"]["Mounts"]
    assert [(one["Target"], one["ReadOnly"]) for one in mounts] == [("/w", False), ("/data", True)]


def test_the_command_replaces_that_of_the_image() -> None:
    assert (body()["Entrypoint"], body()["Cmd"]) == (["python"], ["-c", "pass"])


def test_every_attempt_has_a_name_of_its_own() -> None:
    marks = {"SOKOVAN_RUNTIME": "r"}
    assert len({container_name(marks, "k", 1), container_name(marks, "k", 2), container_name(marks, "k2", 1)}) == 3


def test_a_container_has_its_place_in_the_network_of_its_session_and_publishes_its_ports() -> None:
    launch = CreateKernel(KernelId("k"), 2, SessionId("s"), "train:1", ("python",), ports=(25_600,))
    network = SessionNetwork("sokovan-r-1", "10.213.4.0/24", size=2, rank=1)
    found = container_body(launch, policy=ContainerPolicy(), folders=FOLDERS, user="7:7", runtime="r", network=network)
    host = found["HostConfig"]
    assert (host["NetworkMode"], host["ExtraHosts"]) == ("sokovan-r-1", ["rank-0:10.213.4.2", "rank-1:10.213.4.3"])
    assert host["PortBindings"] == {"25600/tcp": [{"HostIp": "127.0.0.1", "HostPort": "25600"}]}
    assert (found["Hostname"], found["ExposedPorts"]) == ("rank-1", {"25600/tcp": {}})
    place = found["NetworkingConfig"]["EndpointsConfig"]["sokovan-r-1"]
    assert place["IPAMConfig"] == {"IPv4Address": "10.213.4.3"}
    assert "NetworkingConfig" not in body()
