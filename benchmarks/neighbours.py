"""What a user waits while another does the worst allowed.

`python -m benchmarks.neighbours [CASE...] [--json]` starts a real `sokovan up` with 500 fake
agents for every case. The victim submits sessions one after the other and waits until each
is reported running; first without anybody else, then beside the other user, whose client is
a process of its own. On a machine that others use, the processor time that the server needs
meanwhile (`cpu_p50_ms`, to its end) says more.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

import httpx2

from benchmarks.command_line import chosen_cases
from benchmarks.embedded_server import Server, clock, milliseconds, percentile, server
from benchmarks.latency import all_enrolled, client_of, run_once, submit, wait_for

AGENTS = 500
QUIET_RUNS = 40
BESIDE_RUNS = 40
ONE_CORE = {"cpu": 1, "mem": "1GiB"}
TRUE = {"command": ["true"], "resources": ONE_CORE}
# The other user: works until it is cancelled, or until it has ended.
Attack = Callable[[httpx2.AsyncClient], Coroutine[Any, Any, dict[str, Any]]]


async def gang(client: httpx2.AsyncClient) -> dict[str, Any]:
    """One gang of 10,000 kernels that end at once."""
    begun = clock()
    session = await submit(client, size=10_000, command=["true"], resources=ONE_CORE)
    await wait_for(client, session, "terminated")
    return {"ended_s": round(clock() - begun, 1)}


async def gangs(client: httpx2.AsyncClient) -> dict[str, Any]:
    """Gangs of 256 kernels, the default limit, four at a time."""

    async def series() -> None:
        while True:
            session = await submit(client, size=256, command=["true"], resources=ONE_CORE)
            await wait_for(client, session, "terminated")

    await asyncio.gather(*[series() for _ in range(4)])
    return {}


async def array(client: httpx2.AsyncClient) -> dict[str, Any]:
    """Arrays of 10,000 sessions that end at once; refusals by the limit of pending ones included."""
    return await _repeated(client, 1, lambda: client.post("/sessions", json={**TRUE, "array": "0-9999"}, timeout=300))


async def batch(client: httpx2.AsyncClient) -> dict[str, Any]:
    """Batches of 10,000 sessions that end at once."""
    lines = (json.dumps(TRUE) + "\n").encode() * 10_000
    headers = {"content-type": "application/x-ndjson"}
    return await _repeated(
        client, 1, lambda: client.post("/sessions:batch", content=lines, headers=headers, timeout=300)
    )


async def dry_runs(client: httpx2.AsyncClient) -> dict[str, Any]:
    """1,000 dry runs, and again, sixteen at a time; refusals by the rate limit included."""
    return await _repeated(client, 16, lambda: client.post("/sessions/plan", json={"size": 256, "command": ["true"]}))


async def bodies(client: httpx2.AsyncClient) -> dict[str, Any]:
    """Bodies of nearly 1 MiB, sixteen at a time."""
    body = json.dumps({"command": ["true"], "environment": {"X": "x" * 1_000_000}}).encode()
    headers = {"content-type": "application/json"}
    return await _repeated(client, 16, lambda: client.post("/sessions", content=body, headers=headers))


async def fifty_gangs(client: httpx2.AsyncClient) -> None:
    """Gangs of 256 kernels that run."""
    gangs = [await submit(client, size=256, command=["sleep", "600"], resources=ONE_CORE) for _ in range(50)]
    for session in gangs:
        await wait_for(client, session, "running")


async def pages(client: httpx2.AsyncClient) -> dict[str, Any]:
    """The largest pages of the list of `fifty_gangs`, sixteen at a time."""
    return await _repeated(client, 16, lambda: client.get("/sessions", params={"limit": 500}))


async def streams(client: httpx2.AsyncClient) -> dict[str, Any]:
    """100 streams of events, as far as the limit of streams allows, and a session to watch."""
    session = await submit(client, size=256, command=["sleep", "600"], resources=ONE_CORE)

    async def one(path: str) -> None:
        while True:
            async with client.stream("GET", path) as stream:
                async for _ in stream.aiter_lines():
                    pass
            await asyncio.sleep(0.1)  # noqa: TID251  # a refused stream is tried again

    await asyncio.gather(*[one("/events" if n % 2 else f"/sessions/{session}/events") for n in range(100)])
    return {}


async def _repeated(
    client: httpx2.AsyncClient, callers: int, call: Callable[[], Awaitable[httpx2.Response]]
) -> dict[str, Any]:
    del client

    async def series() -> None:
        while True:
            await call()

    await asyncio.gather(*[series() for _ in range(callers)])
    return {}


CASES: dict[str, Attack] = {
    "gang-10000": gang,
    "gangs-256": gangs,
    "array-10000": array,
    "batch-10000": batch,
    "dry-runs": dry_runs,
    "bodies": bodies,
    "pages": pages,
    "streams": streams,
}


# What the other user does before anything is measured.
PREPARATIONS: dict[str, Callable[[httpx2.AsyncClient], Awaitable[None]]] = {"pages": fifty_gangs}


async def measure(name: str) -> dict[str, Any]:
    """The victim's latencies without and beside the other user."""
    with server("--fake", f"{AGENTS}x8", "--no-agent") as started:
        async with client_of(started) as admin:
            await all_enrolled(admin, AGENTS)
            if name == "gang-10000":
                await _allow_gangs(admin)
            other, victim = [await _user(started, admin, user) for user in ("other", "victim")]
            async with client_of(victim, 200) as client:
                return await _compare(name, other, client)


def _attack(name: str, started: Server, pipe: Connection) -> None:
    """The other user, in a process of its own: what its client does takes no time of the victim's."""

    async def work() -> dict[str, Any]:
        async with client_of(started, 200) as client:
            pipe.send("ready")
            pipe.recv()
            return await CASES[name](client)

    pipe.send(asyncio.run(work()))


@contextmanager
def attacker(name: str, started: Server) -> Iterator[Connection]:
    """A process that is ready to attack when it is sent something; sends its figures if it ends."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_attack, args=(name, started, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        ours.recv()
        yield ours
    finally:
        process.kill()
        process.join()


async def _compare(name: str, other: Server, victim: httpx2.AsyncClient) -> dict[str, Any]:
    if name in PREPARATIONS:
        async with client_of(other, 200) as client:
            await PREPARATIONS[name](client)
    await run_once(victim)
    quiet = [await run_once(victim) for _ in range(QUIET_RUNS)]
    work: list[float] = []
    beside: list[float] = []
    peak_mb = 0
    with attacker(name, other) as attack:
        attack.send("begin")
        while len(beside) < BESIDE_RUNS or (name == "gang-10000" and not attack.poll()):
            before_s = other.cpu_s()
            beside.append(await run_once(victim))
            work.append(other.cpu_s() - before_s)
            peak_mb = max(peak_mb, other.memory_mb())
            if attack.poll() and name != "gang-10000":
                break
        figures = attack.recv() if attack.poll() else {}
    quiet_p99, p99 = percentile(quiet, 99), percentile(beside, 99)
    return {
        "quiet_p50_ms": milliseconds(percentile(quiet, 50)),
        "quiet_p99_ms": milliseconds(quiet_p99),
        "p50_ms": milliseconds(percentile(beside, 50)),
        "p99_ms": milliseconds(p99),
        "cpu_p50_ms": milliseconds(percentile(work, 50)),
        "cpu_p99_ms": milliseconds(percentile(work, 99)),
        "runs": len(beside),
        "ratio": round(p99 / quiet_p99, 1),
        "peak_mb": peak_mb,
        **figures,
    }


async def _allow_gangs(admin: httpx2.AsyncClient) -> None:
    policy = {"name": "gangs", "kernels_per_session_max": 10_000}
    (await admin.put("/policies/gangs", json=policy)).raise_for_status()


async def _user(started: Server, admin: httpx2.AsyncClient, name: str) -> Server:
    """The server as a new user has it, with a key of that user."""
    known = (await admin.get("/policies/gangs")).is_success
    body = {"name": name, "domain": "default", "groups": ["default"], **({"policy": "gangs"} if known else {})}
    (await admin.put(f"/users/{name}", json=body)).raise_for_status()
    answer = await admin.post("/keys", json={"user": name})
    answer.raise_for_status()
    return replace(started, token=answer.json()["token"])


def main() -> int:
    """Run the named cases, or all."""
    chosen, as_json = chosen_cases("benchmarks.neighbours", __doc__, CASES)
    for name in chosen:
        figures = {"case": name, **asyncio.run(measure(name))}
        row = "  ".join(f"{key} {value}" for key, value in figures.items())
        print(json.dumps(figures) if as_json else row, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
