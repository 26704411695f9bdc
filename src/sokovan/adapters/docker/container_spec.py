"""The description of a kernel's container for the engine.

Nothing in it is chosen by a user except image, command, variables, folders and amounts: a
container has no capability, gains no privilege, and sees the devices that it was granted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sokovan.adapters.docker.engine.session_networks import SessionNetwork
from sokovan.adapters.process.isolation.devices import cuda_devices
from sokovan.adapters.process.isolation.kernel_limits import OPEN_FILES_MAX
from sokovan.adapters.process.launch.environment import CUDA_VARIABLE, RUNTIME
from sokovan.wire.frames import CreateKernel

# Labels of a container, by which an agent finds its kernels again.
RUNTIME_LABEL = "sokovan.runtime"
KERNEL_LABEL = "sokovan.kernel"
ATTEMPT_LABEL = "sokovan.attempt"
SESSION_LABEL = "sokovan.session"
INCARNATION_LABEL = "sokovan.incarnation"

_NANO_PER_MILLICORE = 1_000_000
# The part of a kernel's output that the engine keeps until it is copied.
LOG_FILE_BYTES = 16 << 20
LOG_FILES = 2
# Where NVIDIA's runtime is the engine's default, it gives a container the devices that this variable names. Images set
# it to all of them.
DEVICES_VARIABLE, NO_DEVICES = "NVIDIA_VISIBLE_DEVICES", "void"
_DEVICE_KINDS = ("GPU-", "MIG-")


@dataclass(frozen=True, slots=True)
class Bind:
    """A folder of the machine in a container."""

    source: str
    target: str
    read_only: bool = False

    def entry(self) -> dict[str, Any]:
        """The same for the engine."""
        return {"Type": "bind", "Source": self.source, "Target": self.target, "ReadOnly": self.read_only}


@dataclass(frozen=True, slots=True)
class ContainerFolders:
    """The variables, working folder and bound folders of a container."""

    environment: Mapping[str, str]
    folder: str
    binds: tuple[Bind, ...] = ()


@dataclass(frozen=True, slots=True)
class ContainerPolicy:
    """The decisions of the operator for all containers of an agent.

    `cpus` is the number of CPUs of the engine's machine, `open_files` the limit of one process.
    `session_networks` is the range of addresses for networks of sessions; empty: none.
    """

    read_only_root: bool = True
    cpus: int = 0
    open_files: int = OPEN_FILES_MAX
    session_networks: str = ""


def container_name(marks: Mapping[str, str], kernel_id: str, attempt: int) -> str:
    """The unique name of a kernel's container on this machine."""
    digest = hashlib.sha256(f"{kernel_id}\0{attempt}".encode()).hexdigest()[:24]
    return f"sokovan-{marks[RUNTIME]}-{digest}"


def container_body(
    launch: CreateKernel,
    *,
    policy: ContainerPolicy,
    folders: ContainerFolders,
    user: str,
    runtime: str,
    network: SessionNetwork | None = None,
) -> dict[str, Any]:
    """The body of the request that creates the container of a kernel."""
    variables = _variables(launch, folders.environment)
    return {
        "Image": launch.image,
        **_command(launch),
        "Env": [f"{name}={value}" for name, value in sorted(variables.items())],
        "WorkingDir": folders.folder,
        "User": user,
        # Health checks of an image are commands that were not requested.
        "Healthcheck": {"Test": ["NONE"]},
        "Labels": {
            RUNTIME_LABEL: runtime,
            KERNEL_LABEL: launch.kernel_id,
            ATTEMPT_LABEL: str(launch.attempt),
            SESSION_LABEL: launch.session_id,
            INCARNATION_LABEL: str(launch.incarnation),
        },
        "HostConfig": {
            "Mounts": [bind.entry() for bind in folders.binds],
            **_network_mode(launch, network),
            "Init": True,
            "Privileged": False,
            "ReadonlyRootfs": policy.read_only_root,
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges"],
            "IpcMode": "private",
            "PidsLimit": launch.processes_max,
            # As a process of the machine has them; Podman's own default is more than some machines allow.
            "Ulimits": [_ulimit("nofile", policy.open_files), _ulimit("core", 0)],
            "RestartPolicy": {"Name": "no"},
            "LogConfig": {
                "Type": "json-file",
                "Config": {"max-size": str(LOG_FILE_BYTES), "max-file": str(LOG_FILES)},
            },
            **_amounts(launch, policy.cpus),
            **_devices(launch),
        },
        **_own_place(launch, network),
    }


def _command(launch: CreateKernel) -> dict[str, Any]:
    """The command, in the place of the image's own; without one, that of the image is run."""
    if not launch.command:
        return {}
    return {"Entrypoint": [launch.command[0]], "Cmd": list(launch.command[1:])}


def _network_mode(launch: CreateKernel, network: SessionNetwork | None) -> dict[str, Any]:
    if network is None:
        return {"NetworkMode": "none" if launch.isolated_network else "host"}
    published = {f"{port}/tcp": [{"HostIp": "127.0.0.1", "HostPort": str(port)}] for port in launch.ports}
    return {"NetworkMode": network.name, "ExtraHosts": network.hosts(), "PortBindings": published}


def _own_place(launch: CreateKernel, network: SessionNetwork | None) -> dict[str, Any]:
    if network is None:
        return {}
    return {**network.options(), "ExposedPorts": {f"{port}/tcp": {} for port in launch.ports}}


def _ulimit(name: str, amount: int) -> dict[str, Any]:
    return {"Name": name, "Soft": amount, "Hard": amount}


def _variables(launch: CreateKernel, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables without those of this machine: PATH is the image's unless the session sets it."""
    variables = dict(environment)
    if "PATH" not in launch.environment:
        variables.pop("PATH", None)
    else:
        variables["PATH"] = launch.environment["PATH"]
    granted = _real_devices(launch)
    variables[DEVICES_VARIABLE] = ",".join(granted) or NO_DEVICES
    if granted:
        # The engine shows these devices only, and numbers them from 0.
        variables.pop(CUDA_VARIABLE, None)
    return variables


def _amounts(launch: CreateKernel, cpus: int) -> dict[str, int]:
    amounts: dict[str, int] = {}
    millicores, memory = launch.slots.get("cpu", 0), launch.slots.get("mem", 0)
    if cpus:
        millicores = min(millicores, cpus * 1000)
    if millicores:
        amounts["NanoCpus"] = millicores * _NANO_PER_MILLICORE
    if memory:
        # No swap beside it; files in /dev/shm count as memory.
        amounts |= {"Memory": memory, "MemorySwap": memory, "ShmSize": max(1, memory // 2)}
    return amounts


def _devices(launch: CreateKernel) -> dict[str, Any]:
    granted = _real_devices(launch)
    if not granted:
        return {}
    return {"DeviceRequests": [{"Driver": "nvidia", "DeviceIDs": list(granted), "Capabilities": [["gpu"]]}]}


def _real_devices(launch: CreateKernel) -> list[str]:
    """The granted devices that a driver knows; fake ones are known to the agent only."""
    return [one for one in cuda_devices(launch) if one.isdigit() or one.startswith(_DEVICE_KINDS)]
