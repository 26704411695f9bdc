"""A kernel with an isolated network reaches nothing but itself."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from sokovan.adapters.process.runtime import ProcessRuntime
from sokovan.domain.cluster.agent import NO_ACCOUNTS
from sokovan.domain.ids import KernelId
from sokovan.ports.runtime import SandboxFailed
from sokovan.wire.frames import OutputTerms
from tests.kernels import SLEEP, ended, launch, needs_root, needs_sandbox, output, runtime_in, said

TERMS = OutputTerms("ada", 60, 1 << 20, 1 << 20)
NUMBERS = range(300_000, 300_100)
# The outcome of a connection to each address; to itself it works. Nothing is sent to other machines if the network is
# not isolated after all.
CONNECTS = """
import json, os, socket
own = socket.create_server(("127.0.0.1", 0))
found = {"itself": "ok" if socket.create_connection(own.getsockname(), timeout=5) else ""}
found["interfaces"] = [name for _, name in socket.if_nameindex()]
for name, address in TARGETS.items():
    if found["interfaces"] != ["lo"] and not isinstance(address, str) and address[0] != "127.0.0.1":
        continue
    kind = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    with socket.socket(kind) as near:
        near.settimeout(5)
        try:
            near.connect(address if isinstance(address, str) else tuple(address))
            found[name] = "reached"
        except OSError as error:
            found[name] = "refused"
found["namespace"] = os.stat("/proc/self/ns/net").st_ino
print(json.dumps(found))
"""


@pytest.fixture
def targets() -> Iterator[dict[str, Any]]:
    """What a kernel must not reach: listeners of the machine, and other machines."""
    names = ("api", "link of agents", "database", "bus", "configuration", "other kernel")
    with ExitStack() as stack:
        found: dict[str, Any] = {
            name: stack.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname() for name in names
        }
        abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
        abstract.bind(f"\0sokovan-test-of-networks-{os.getpid()}")  # tests of other processes have their own
        abstract.listen()
        found["abstract socket"] = abstract.getsockname().decode()
        yield {**found, "metadata of a cloud": ("169.254.169.254", 80), "another machine": ("192.0.2.1", 443)}


@pytest.fixture(params=[pytest.param(NO_ACCOUNTS, id="shared"), pytest.param(NUMBERS, id="per-user", marks=needs_root)])
async def runtime(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ProcessRuntime]:
    async with runtime_in(tmp_path / "root", bubblewrap="bwrap", accounts=request.param) as ready:
        yield ready


@needs_sandbox
async def test_a_kernel_connects_to_itself_only(runtime: ProcessRuntime, targets: dict[str, Any]) -> None:
    script = CONNECTS.replace("TARGETS", repr(targets))
    await runtime.create(launch("k", script, output=TERMS, isolated_network=True))
    assert (await ended(runtime, "k")).exit_code == 0, await output(runtime, "k")
    found = json.loads(await output(runtime, "k"))
    assert found.pop("interfaces") == ["lo"]
    assert found.pop("namespace") != os.stat("/proc/self/ns/net").st_ino  # noqa: PTH116  # a namespace
    assert found == {"itself": "ok", **dict.fromkeys(targets, "refused")}


@needs_sandbox
async def test_a_further_command_has_the_network_of_its_kernel(
    runtime: ProcessRuntime, targets: dict[str, Any]
) -> None:
    await runtime.create(launch("k", SLEEP, output=TERMS, isolated_network=True))
    await said(runtime, "k", b"up")
    script = CONNECTS.replace("TARGETS", repr(targets))
    async with runtime.execute(KernelId("k"), 1, (sys.executable, "-c", script), terminal=False) as command:
        found = json.loads(b"".join([piece async for piece in command.output()]))
    assert found["interfaces"] == ["lo"]
    assert {found[name] for name in targets} == {"refused"}


async def test_without_a_sandbox_such_a_kernel_does_not_start(tmp_path: Path) -> None:
    async with runtime_in(tmp_path / "root") as runtime:
        with pytest.raises(SandboxFailed, match="need a sandbox"):
            await runtime.create(launch("k", "pass", isolated_network=True))
        assert await runtime.observe() == []
