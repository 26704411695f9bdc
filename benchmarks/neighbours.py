"""What a user waits while another does the worst allowed.

`python -m benchmarks.neighbours [CASE...] [--json]` starts a real `sokovan up` with 500 fake
agents for every case. The victim submits sessions one after the other and waits until each
is reported running; first without anybody else, then beside the other user. On a machine
that others use, the processor time that the server needs meanwhile (`cpu_p50_ms`, to its end) says more.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Coroutine
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
            async with other, victim:
                return await _compare(started, name, other, victim)


async def _compare(started: Server, name: str, other: httpx2.AsyncClient, victim: httpx2.AsyncClient) -> dict[str, Any]:
    if name in PREPARATIONS:
        await PREPARATIONS[name](other)
    await run_once(victim)
    quiet = [await run_once(victim) for _ in range(QUIET_RUNS)]
    work: list[float] = []
    attack = asyncio.create_task(CASES[name](other))
    beside: list[float] = []
    peak_mb = 0
    while len(beside) < BESIDE_RUNS or (name == "gang-10000" and not attack.done()):
        before_s = started.cpu_s()
        beside.append(await run_once(victim))
        work.append(started.cpu_s() - before_s)
        peak_mb = max(peak_mb, started.memory_mb())
        if attack.done() and name != "gang-10000":
            break
    figures = attack.result() if attack.done() else {}
    attack.cancel()
    await asyncio.gather(attack, return_exceptions=True)
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


async def _user(started: Server, admin: httpx2.AsyncClient, name: str) -> httpx2.AsyncClient:
    """A client with a key of a new user."""
    known = (await admin.get("/policies/gangs")).is_success
    body = {"name": name, "domain": "default", "groups": ["default"], **({"policy": "gangs"} if known else {})}
    (await admin.put(f"/users/{name}", json=body)).raise_for_status()
    answer = await admin.post("/keys", json={"user": name})
    answer.raise_for_status()
    client = client_of(started, 200)
    client.headers["Authorization"] = f"Bearer {answer.json()['token']}"
    return client


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
