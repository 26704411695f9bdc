"""Names and states of containers, and the proof that nothing of one is left."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sokovan.adapters.docker.container_spec import RUNTIME_LABEL, SESSION_LABEL, container_name
from sokovan.adapters.docker.engine.client import NOT_FOUND, EngineClient, EngineRefusal, EngineUnavailable, path_of
from sokovan.adapters.docker.engine.session_networks import SessionNetworks
from sokovan.adapters.process.launch.environment import RUNTIME, marks_of
from sokovan.adapters.process.shim.processes import boot_id, look_up
from sokovan.domain.ids import KernelId


def started_state(about: Mapping[str, Any], began_ms: int) -> dict[str, Any]:
    """The state of a container that the engine has started."""
    pid = int((about.get("State") or {}).get("Pid") or 0)
    process = look_up(pid) if pid else None
    return {
        "started_ms": began_ms,
        "container": str(about.get("Id")),
        "pid": pid,
        "pid_start": 0 if process is None else process.start,
        "boot": boot_id(),
        **({"own_network": True} if _has_own_network(about) else {}),
    }


def _has_own_network(about: Mapping[str, Any]) -> bool:
    mode = str((about.get("HostConfig") or {}).get("NetworkMode") or "")
    return mode.startswith("sokovan-")


def runtime_mark(root: Path) -> str:
    """The mark of all containers of one root."""
    return marks_of(KernelId(""), 0, root=root)[RUNTIME]


def networks_of(engine: EngineClient, root: Path) -> SessionNetworks:
    """The networks of the sessions of one root."""
    return SessionNetworks(engine, (RUNTIME_LABEL, runtime_mark(root)), SESSION_LABEL)


def traces_of(root: Path, kernel_id: str, attempt: int) -> str:
    """The name of a kernel's container, which identifies it without its files."""
    marks = marks_of(KernelId(kernel_id), attempt, root=root)
    return json.dumps({"container": container_name(marks, kernel_id, attempt)})


def container_of(traces: str) -> str:
    """The name of a container from its traces."""
    return str(json.loads(traces)["container"])


async def remains_of(engine: EngineClient, container: str) -> str:
    """Remove a container by force; an empty text proves that nothing of it runs."""
    try:
        await engine.call("DELETE", path_of("containers", container), query={"force": "1", "v": "1"})
        await engine.call("GET", path_of("containers", container, "json"))
    except EngineRefusal as problem:
        return "" if problem.status == NOT_FOUND else f"container {container} cannot be removed: {problem.problem}"
    except EngineUnavailable as problem:
        return f"container {container} may run: {problem.message}"
    return f"container {container} is still there"
