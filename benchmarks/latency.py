"""How long clients wait: `python -m benchmarks.latency [CASE...] [--json]`.

Every case starts a real `sokovan up` in a temporary folder and sends HTTP requests to
it. A session counts as running when the client has received that state.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import httpx2

from benchmarks.command_line import chosen_cases
from benchmarks.embedded_server import Server, clock, milliseconds, percentile, server

SMALL = {"cpu": 0.05, "mem": "32MiB"}
Figures = dict[str, Any]


def client_of(started: Server, connections: int = 100) -> httpx2.AsyncClient:
    """An HTTP client with the server's API key."""
    limits = httpx2.Limits(max_connections=connections)
    return httpx2.AsyncClient(
        base_url=f"{started.url}/api/v1", headers=started.headers, limits=limits, timeout=60, trust_env=False
    )


async def submit(client: httpx2.AsyncClient, **body: Any) -> str:
    """Submit a session and return its id."""
    response = await client.post("/sessions", json=body)
    response.raise_for_status()
    return str(response.json()["id"])


async def wait_for(client: httpx2.AsyncClient, session: str, *statuses: str) -> None:
    """Wait until the event stream reports one of the statuses."""
    async with client.stream("GET", f"/sessions/{session}/events") as stream:
        async for line in stream.aiter_lines():
            if line.startswith("data:") and json.loads(line[5:]).get("status") in statuses:
                return
    raise RuntimeError(f"the stream of {session} ended before {statuses}")


async def run_once(client: httpx2.AsyncClient) -> float:
    """Seconds from the submission until it is reported running; stops it afterwards."""
    begun = clock()
    session = await submit(client, type="interactive", command=["sleep", "600"], resources=SMALL)
    await wait_for(client, session, "running")
    took = clock() - begun
    await client.delete(f"/sessions/{session}", params={"forced": "true"})
    await wait_for(client, session, "terminated")
    return took


async def sequential(times: int) -> Figures:
    """Submit, wait until it runs, stop it; one session at a time."""
    with server() as started:
        async with client_of(started) as client:
            await run_once(client)
            durations = [await run_once(client) for _ in range(times)]
    return spread(durations)


async def steady(rate: int, seconds: int) -> Figures:
    """Submit at a constant rate, independent of earlier sessions; each runs half a second."""
    with server() as started:
        async with client_of(started) as client:
            durations: list[float] = []

            async def one(number: int) -> None:
                await asyncio.sleep(number / rate)  # noqa: TID251  # the rate is in real time
                begun = clock()
                session = await submit(client, command=["sleep", "0.5"], resources=SMALL)
                await wait_for(client, session, "running", "terminating", "terminated")
                durations.append(clock() - begun)

            await asyncio.gather(*[one(number) for number in range(rate * seconds)])
            return {**spread(durations), "memory_mb": started.memory_mb()}


def spread(durations: list[float]) -> Figures:
    """Number, median, 99th percentile and maximum of durations."""
    return {
        "runs": len(durations),
        "p50_ms": milliseconds(statistics.median(durations)),
        "p99_ms": milliseconds(percentile(durations, 99)),
        "max_ms": milliseconds(max(durations)),
    }


async def commands() -> Figures:
    """Duration of commands (median of nine), start-up time and memory of the server."""
    with server() as started:

        def median(*arguments: str) -> float:
            return milliseconds(statistics.median(started.command(*arguments) for _ in range(9)))

        return {
            "up_ready_ms": milliseconds(started.ready_s),
            "help_ms": median("--help"),
            "ps_ms": median("ps"),
            "memory_mb": started.memory_mb(),
        }


async def crowd(*, sessions: int, size: int, callers: int = 16) -> Figures:
    """Submit many sessions against 1,000 fake agents and wait until all are placed."""
    with server("--fake", "1000x8", "--no-agent") as started:
        async with client_of(started) as client, client_of(started, 4) as other:
            await all_enrolled(client, 1000)
            begun = clock()
            waits: list[float] = []
            probing = asyncio.create_task(probe(other, waits))
            todo = iter(range(sessions))

            async def caller() -> None:
                for _ in todo:
                    await submit(client, size=size, command=["sleep", "3600"], resources={"cpu": 1, "mem": "1GiB"})

            await asyncio.gather(*[caller() for _ in range(callers)])
            accepted = clock() - begun
            await all_placed(client)
            placed = clock() - begun
            probing.cancel()
            return {
                "sessions": sessions,
                "kernels": sessions * size,
                "submissions_per_s": round(sessions / accepted),
                "all_accepted_s": round(accepted, 1),
                "all_placed_s": round(placed, 1),
                "api_p50_ms": milliseconds(statistics.median(waits)),
                "api_p99_ms": milliseconds(percentile(waits, 99)),
                "api_probes": len(waits),
                "memory_mb": started.memory_mb(),
            }


async def probe(client: httpx2.AsyncClient, waits: list[float]) -> None:
    """Request a page of sessions repeatedly and record the response times."""
    while True:
        begun = clock()
        (await client.get("/sessions", params={"limit": 20})).raise_for_status()
        waits.append(clock() - begun)
        await asyncio.sleep(0.02)  # noqa: TID251  # paces the probes in real time


async def all_enrolled(client: httpx2.AsyncClient, count: int) -> None:
    """Wait until `count` agents are enrolled."""
    enrolled = 0
    while enrolled < count:
        await asyncio.sleep(0.5)  # noqa: TID251  # agents enrol in real time
        enrolled, cursor = 0, None
        while enrolled == 0 or cursor is not None:
            page = (await client.get("/agents", params={"limit": 500, **({"cursor": cursor} if cursor else {})})).json()
            enrolled, cursor = enrolled + len(page["items"]), page["next"]
            if not page["items"]:
                break


async def all_placed(client: httpx2.AsyncClient) -> None:
    """Wait until no session is pending."""
    waiting = True
    while waiting:
        await asyncio.sleep(0.05)  # noqa: TID251  # polls in real time
        waiting = bool((await client.get("/sessions", params={"status": "pending", "limit": 1})).json()["items"])


CASES: dict[str, tuple[str, Callable[[], Coroutine[None, None, Figures]]]] = {
    "commands": ("up <= 3 s, ps <= 350 ms, --help <= 150 ms, memory <= 250 MB", commands),
    "sequential": ("p50 <= 150 ms, p99 <= 500 ms", lambda: sequential(200)),
    "steady-20": ("p50 <= 120 ms, p99 <= 400 ms", lambda: steady(20, 60)),
    "steady-50": ("p50 <= 250 ms, p99 <= 1,000 ms", lambda: steady(50, 60)),
    "crowd-10k": ("API p99 <= 100 ms", lambda: crowd(sessions=10_000, size=1)),
    "crowd-gangs": ("API p99 <= 100 ms", lambda: crowd(sessions=1_250, size=8)),
}


def main() -> int:
    """Run the named cases, or all."""
    chosen, as_json = chosen_cases("benchmarks.latency", __doc__, CASES)
    for name in chosen:
        goal, work = CASES[name]
        figures = {"case": name, **asyncio.run(work()), "goal": goal}
        print(json.dumps(figures) if as_json else _row(figures), flush=True)
    return 0


def _row(figures: Figures) -> str:
    return "  ".join(
        [f"{figures['case']:12}", *(f"{name} {value}" for name, value in figures.items() if name != "case")]
    )


if __name__ == "__main__":
    sys.exit(main())
