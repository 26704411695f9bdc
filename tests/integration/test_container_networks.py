"""Networks of sessions on a real Docker Engine, which is in a network namespace of its own.

Its rules keep networks apart, and those of the machine are not changed.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from sokovan.adapters.docker.container_spec import ContainerPolicy
from sokovan.adapters.docker.engine.client import EngineClient
from sokovan.adapters.docker.runtime import DockerRuntime
from sokovan.adapters.local.clock import SystemClock
from sokovan.domain.ids import KernelId
from sokovan.ports.runtime import KernelState
from sokovan.testing.servers import DockerServer
from sokovan.testing.servers.docker import PYTHON_IMAGE
from sokovan.wire.frames import CreateKernel

POOL = "10.213.0.0/16"
# Answers each connection with its own host name, inside and at its leased port.
ANSWERS = """
import socket, sys, threading
def serve(host, port):
    listener = socket.create_server((host, port))
    print('listens', flush=True)
    while True:
        caller, _ = listener.accept()
        caller.sendall(socket.gethostname().encode())
        caller.close()
threading.Thread(target=serve, args=('127.0.0.1', 6000)).start()
serve('0.0.0.0', 5000)
"""
ASKS = """
import socket, sys
try:
    with socket.create_connection((sys.argv[1], 5000), 3) as line:
        print('heard', line.recv(100).decode(), flush=True)
except OSError as problem:
    print('nothing', type(problem).__name__, flush=True)
"""


class ApartDockerServer(DockerServer):
    """An engine with rules and networks, in a network namespace of its own."""

    environment = "SOKOVAN_TEST_APART_DOCKER_URL"

    def _arguments(self) -> Sequence[str]:
        left_out = ("--bridge=", "--iptables=")
        words = [word for word in super()._arguments() if not word.startswith(left_out)]
        return ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", *words]


@pytest.fixture(scope="module")
def engine_apart() -> Iterator[ApartDockerServer]:
    """An engine that can keep networks apart; skipped where none can be started."""
    missing = [name for name in ("unshare", "ip", "iptables") if shutil.which(name) is None]
    if ApartDockerServer.absence() or missing:
        pytest.skip(ApartDockerServer.absence() or f"{', '.join(missing)} is not installed")
    with ApartDockerServer() as server:
        server.add_python_image()
        yield server


@pytest.fixture
async def runtime(engine_apart: ApartDockerServer, tmp_path: Path) -> AsyncIterator[DockerRuntime]:
    made = opened(engine_apart, tmp_path)
    yield made
    for one in await made.observe():
        await made.stop(one.kernel_id, one.attempt, grace_s=0)
    await none_runs(made)
    await made.observe()
    made.close()
    assert await networks(engine_apart) == [], "networks are left"


def opened(server: DockerServer, root: Path) -> DockerRuntime:
    return DockerRuntime(
        root / "root", SystemClock(), EngineClient(server.socket), policy=ContainerPolicy(session_networks=POOL)
    )


async def networks(server: DockerServer) -> list[str]:
    listed: list[dict[str, Any]] = await EngineClient(server.socket).call("GET", "/networks")
    return [one["Name"] for one in listed if one["Name"].startswith("sokovan-")]


def kernel(session: str, rank: int, script: str, *words: str, size: int = 2, **options: Any) -> CreateKernel:
    environment = {
        "SOKOVAN_RANK": str(rank),
        "SOKOVAN_SIZE": str(size),
        "SOKOVAN_HOSTS": "127.0.0.1,127.0.0.1",
        "SOKOVAN_HOSTFILE": ".sokovan/hosts",
        "MASTER_ADDR": "127.0.0.1",
    }
    files = {".sokovan/hosts": "127.0.0.1 slots=2\n"}
    command = ("python", "-c", script, *words)
    given = {"own_network": True, "slots": {"cpu": 200, "mem": 64 << 20}, **options}
    return CreateKernel(
        f"{session}-{rank}", 1, session, PYTHON_IMAGE, command, environment=environment, files=files, **given
    )


async def said(runtime: DockerRuntime, kernel_id: str, text: str) -> str:
    """Wait until a kernel has said something."""
    found = ""
    for _ in range(600):
        found = (await runtime.read_log(KernelId(kernel_id), 1, offset=0, limit=10_000)).data.decode()
        if text in found:
            return found
        await runtime.observe()
        await SystemClock().sleep(0.05)
    raise AssertionError(f"{kernel_id} never said {text!r}, but {found!r}")


async def none_runs(runtime: DockerRuntime) -> None:
    """Wait until every kernel has ended."""
    for _ in range(600):
        if all(one.state is KernelState.EXITED for one in await runtime.observe()):
            return
        await SystemClock().sleep(0.05)
    raise AssertionError(str(await runtime.observe()))


async def test_kernels_of_a_session_reach_one_another_by_rank_and_others_do_not(
    runtime: DockerRuntime, engine_apart: ApartDockerServer
) -> None:
    shows = "import os; print(os.environ['SOKOVAN_HOSTS'], os.environ['MASTER_ADDR'])\n"
    await runtime.create(
        kernel("s1", 0, shows + "print(open('.sokovan/hosts').read(), end='')\n" + ANSWERS, ports=(25_613,))
    )
    told = await said(runtime, "s1-0", "listens\nlistens")
    assert told.startswith("rank-0,rank-1 rank-0\nrank-0 slots=1\nrank-1 slots=1\n")
    assert len(await networks(engine_apart)) == 1

    await runtime.create(kernel("s1", 1, ASKS, "rank-0"))
    assert await said(runtime, "s1-1", "\n") == "heard rank-0\n"

    address = address_of(engine_apart, await networks(engine_apart))
    await runtime.create(kernel("s2", 0, ASKS, address, size=1))
    assert await said(runtime, "s2-0", "\n") == "nothing TimeoutError\n"

    # Agents reach programs that listen on the container's own loopback.
    async with runtime.connect(KernelId("s1-0"), 1, 6000) as line:
        assert b"".join([piece async for piece in line.output()]) == b"rank-0"
    # The leased port is published on the loopback of the engine's machine.
    published = [one for one in ports(engine_apart) if one.get("PublicPort")]
    assert [(one["IP"], one["PublicPort"], one["PrivatePort"]) for one in published] == [("127.0.0.1", 25_613, 25_613)]


def address_of(server: DockerServer, names: list[str]) -> str:
    """The address of the first rank."""
    found = [
        place["IPAddress"]
        for one in json.loads(server._reply("GET", "/containers/json")[1])
        for name, place in one["NetworkSettings"]["Networks"].items()
        if name in names
    ]
    return min(map(str, found))


def ports(server: DockerServer) -> list[dict[str, Any]]:
    return [port for one in json.loads(server._reply("GET", "/containers/json")[1]) for port in one["Ports"]]


async def test_an_agent_that_restarts_adopts_networks_and_removes_those_without_containers(
    runtime: DockerRuntime, engine_apart: ApartDockerServer, tmp_path: Path
) -> None:
    await runtime.create(kernel("s1", 0, ANSWERS, size=1))
    await runtime.create(kernel("s2", 0, ANSWERS, size=1))
    assert len(await networks(engine_apart)) == 2
    # A container is removed while the agent is away.
    engine_apart.remove(engine_apart.containers()[0])

    restarted = opened(engine_apart, tmp_path)
    try:
        states = [one.state for one in await restarted.observe()]
        assert sorted(states) == sorted([KernelState.RUNNING, KernelState.EXITED])
        assert len(await networks(engine_apart)) == 1
    finally:
        restarted.close()


async def test_a_gang_across_machines_shares_the_network_of_the_machine(
    runtime: DockerRuntime, engine_apart: ApartDockerServer
) -> None:
    await runtime.create(kernel("s1", 0, "import socket; print(socket.gethostname())", own_network=False))
    await said(runtime, "s1-0", "\n")
    assert await networks(engine_apart) == []
