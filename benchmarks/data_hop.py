"""What the way through an agent's data listener costs: `python -m benchmarks.data_hop [--json]`.

A proxy on another machine reaches an engine through its agent: TLS, a ticket, and a look at
who listens at the port. Here all are on one machine: engine, agent and caller are processes
of their own. `connect` opens connections one after the other, with `new` sockets to look for
each time and with `known` ones; `requests` are sent over connections that are kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import multiprocessing
import os
import socket
import ssl
import sys
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.command_line import chosen_cases
from benchmarks.embedded_server import clock, milliseconds, percentile
from benchmarks.proxy import ANSWER, CONNECTIONS, SECONDS, SLEEP, Caller, cpu_s, request, serve_endpoints
from sokovan.adapters.local.certificates import CertificateAuthority, new_key, signing_request
from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.process.ports.kernel_listeners import KnownListeners
from sokovan.adapters.process.ports.port_connection import PortConnection
from sokovan.adapters.process.shim.processes import look_up
from sokovan.adapters.process.threads import Threads
from sokovan.agent.link.data_listener import DataListener, DataSocket
from sokovan.domain.ids import AgentId, KernelId
from sokovan.domain.serving.ticket import data_key, ticket
from sokovan.entrypoints.web.listener import bound_listener
from sokovan.proxy.endpoint_connections import Dialler
from sokovan.wire.serving.route_table import EndpointEntry

OPENED = 300
KEY = data_key("secret", AgentId("far"))
Figures = dict[str, Any]


def serve_agent(listener: socket.socket, certificate: Path, *, remembers: bool) -> None:
    """Run an agent's data listener, until ended."""
    threads, known = Threads(), KnownListeners()
    # The engine is another child of the benchmark's process, which stands for the shim of the kernel.
    shim = look_up(os.getppid())

    def connect(_kernel: KernelId, _attempt: int, port: int) -> PortConnection:
        found = known if remembers else KnownListeners()
        return PortConnection(port, lambda: shim, threads=threads, presence=nullcontext(), known=found)

    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    data = DataListener(DataSocket(listener, tls, ""), connect, lambda _line: None)
    data.set_key(KEY)
    asyncio.run(data.run())


@contextlib.contextmanager
def child(work: Any, *arguments: Any, **options: Any) -> Iterator[int]:
    """The id of a process that works until the context ends."""
    process = multiprocessing.get_context("fork").Process(target=work, args=arguments, kwargs=options, daemon=True)
    process.start()
    try:
        yield process.pid or 0
    finally:
        process.terminate()
        process.join()


def used_s(agent: int) -> float:
    """Processor time of an agent's process; 0 if there is none."""
    return cpu_s(agent) if agent else 0.0


async def connect(dialler: Dialler, entry: EndpointEntry, agent: int) -> Figures:
    """Open connections one after the other, each for one request."""
    times, before = [], used_s(agent)
    for _ in range(OPENED):
        begun = clock()
        reader, writer = await dialler.streams(entry, limit=1 << 16)
        writer.write(request())
        await reader.readuntil(ANSWER)
        times.append(clock() - begun)
        writer.transport.abort()
    return {
        "p50 ms": milliseconds(percentile(times, 50)),
        "p99 ms": milliseconds(percentile(times, 99)),
        "CPU ms of the agent": round((used_s(agent) - before) / OPENED * 1000, 2),
    }


async def requests(dialler: Dialler, entry: EndpointEntry, agent: int) -> Figures:
    """Requests as fast as they are answered, over connections that are kept."""
    callers = [Caller(request()) for _ in range(CONNECTIONS)]
    for caller in callers:
        await dialler.connect(entry, lambda one=caller: one)  # type: ignore[misc]  # bound at once
    await SLEEP(0.5)
    before, count = used_s(agent), sum(one.answered for one in callers)
    await SLEEP(SECONDS)
    done = sum(one.answered for one in callers) - count
    for caller in callers:
        caller.transport.abort()
    return {
        "requests per second": round(done / SECONDS),
        "CPU us of the agent per request": round((used_s(agent) - before) / done * 1e6, 1),
    }


CASES = {"connect": connect, "requests": requests}


async def run(cases: list[str], dialler: Dialler, ways: dict[str, tuple[EndpointEntry, int]]) -> dict[str, Figures]:
    """All figures, by case and way."""
    return {f"{case} {way}": await CASES[case](dialler, *ways[way]) for way in ways for case in cases}


def certified(authority: CertificateAuthority, file: Path) -> None:
    """Write the certificate of an agent."""
    key = new_key()
    issued, _ = authority.issue(signing_request(key, "far"), "far")
    file.write_bytes(issued.encode() + key)


def main() -> int:
    """Run the chosen cases and print their figures."""
    cases, as_json = chosen_cases("benchmarks.data_hop", __doc__, CASES)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        authority, certificate = CertificateAuthority(folder / "tls", SystemClock()), folder / "far.pem"
        certified(authority, certificate)
        engine = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = engine.getsockname()[1]
        stack.enter_context(child(serve_endpoints, [engine]))
        ways = {"directly": (EndpointEntry("s.0.1", 1, "127.0.0.1", port, "ACTIVE"), 0)}
        for way, remembers in (("new", False), ("known", True)):
            listener = stack.enter_context(bound_listener("127.0.0.1", 0, backlog=128))
            agent = stack.enter_context(child(serve_agent, listener, certificate, remembers=remembers))
            far = EndpointEntry(
                "s.0.1", 1, "127.0.0.1", listener.getsockname()[1], "ACTIVE", agent="far", kernel_port=port,
                ticket=ticket(KEY, "s.0.1", port),
            )  # fmt: skip
            ways[f"by the agent, {way}"] = far, agent
        found = uvloop.run(run(cases, Dialler(lambda: authority.certificate), ways))
    if as_json:
        print(json.dumps(found, indent=2))
        return 0
    for name, values in found.items():
        print(f"{name:32}", ", ".join(f"{key} {value:,}" for key, value in values.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
