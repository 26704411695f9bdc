"""What the life of a session costs the server: `python -m benchmarks.profile_life [CASE...]`.

Runs sessions from submission to TERMINATED against a server that samples its own stacks
(`benchmarks.sampled_server`), and prints per session and stage: processor time, SQL
statements and rows. The sampler's own time is a stage of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.command_line import chosen_cases
from benchmarks.embedded_server import Server, clock, server, wait
from benchmarks.latency import SMALL, all_enrolled, client_of, submit, wait_for
from sokovan.domain.lifecycle.session import SessionStatus

Counts = dict[str, Any]
_TOP_STATEMENTS = 12
_ENDED = {SessionStatus.TERMINATED, SessionStatus.CANCELLED}
UNFINISHED = ",".join(status.value for status in SessionStatus if status not in _ENDED)


@dataclass(frozen=True, slots=True)
class Case:
    """A fleet, and how many sessions are in the system at a time."""

    title: str
    options: tuple[str, ...]
    sessions: int
    callers: int
    agents: int = 0


CASES = {
    "fake-alone": Case("fake agents, one session at a time", ("--fake", "100x8", "--no-agent"), 200, 1, 100),
    "fake-crowd": Case("fake agents, 64 callers", ("--fake", "1000x8", "--no-agent"), 5_000, 64, 1_000),
    "real-alone": Case("real processes, one session at a time", (), 100, 1),
    "real-crowd": Case("real processes, 16 callers", (), 400, 16),
}


async def lives(started: Server, case: Case) -> float:
    """Submit all sessions of a case and wait until each has ended; returns seconds."""
    async with client_of(started) as client:
        if case.agents:
            await all_enrolled(client, case.agents)
        todo = iter(range(case.sessions))

        async def caller() -> None:
            for _ in todo:
                session = await submit(client, command=["true"], resources=SMALL)
                if case.callers == 1:
                    await wait_for(client, session, "terminated")

        async def all_ended() -> None:
            left = True
            while left:
                await asyncio.sleep(0.1)  # noqa: TID251  # polls in real time
                left = bool((await client.get("/sessions", params={"status": UNFINISHED, "limit": 1})).json()["items"])

        begun = clock()
        await asyncio.gather(*[caller() for _ in range(case.callers)])
        await all_ended()
        return clock() - begun


def counts_of(started: Server, file: Path) -> Counts:
    """What the server has counted up to now."""
    file.unlink(missing_ok=True)
    os.kill(started.pid, signal.SIGUSR1)
    while not file.exists():
        wait(0.01)
    found: Counts = json.loads(file.read_text(encoding="utf-8"))
    return found


def measure(case: Case) -> Counts:
    """The counts of a case, per session."""
    with tempfile.TemporaryDirectory(prefix="sokovan-profile-") as folder:
        file = Path(folder) / "counts.json"
        command = (sys.executable, "-m", "benchmarks.sampled_server", str(file))
        with server(*case.options, command=command) as started:
            asyncio.run(lives(started, Case(case.title, case.options, case.callers * 2, case.callers, case.agents)))
            before = counts_of(started, file)
            took = asyncio.run(lives(started, case))
            return per_session(before, counts_of(started, file), case.sessions, took)


def per_session(before: Counts, after: Counts, sessions: int, took: float) -> Counts:
    """The difference of two counts, divided by the number of sessions."""
    stages: Counter[str] = Counter(after["stages"])
    stages.subtract(before["stages"])
    cpu_us = (after["cpu_s"] - before["cpu_s"]) * 1e6 / sessions
    statements: Counter[str] = Counter(after["statements"])
    statements.subtract(before["statements"])
    return {
        "sessions_per_s": round(sessions / took, 1),
        "cpu_us": round(cpu_us),
        "children_cpu_us": round((after["children_cpu_s"] - before["children_cpu_s"]) * 1e6 / sessions),
        "stages_us": {name: round(spent / 1000 / sessions) for name, spent in stages.most_common() if spent},
        "statements": round(sum(statements.values()) / sessions, 2),
        "rows_written": round((after["rows_written"] - before["rows_written"]) / sessions, 1),
        "rows_read": round((after["rows_read"] - before["rows_read"]) / sessions, 1),
        "top_statements": {
            text: round(count / sessions, 2) for text, count in statements.most_common(_TOP_STATEMENTS) if count
        },
    }


def table(title: str, figures: Counts) -> str:
    """The figures of a case as a table."""
    head = (
        f"{title}: {figures['sessions_per_s']} sessions/s, {figures['cpu_us']} us of processor time per session, "
        f"{figures['statements']} statements, {figures['rows_written']} rows written, {figures['rows_read']} rows read"
    )
    stages = [f"| {stage} | {cost} |" for stage, cost in figures["stages_us"].items()]
    statements = ", ".join(f"{text} {count}" for text, count in figures["top_statements"].items())
    return "\n".join(
        [head, "", "| stage | us per session |", "|---|---|", *stages, "", f"Statements: {statements}", ""]
    )


def main() -> int:
    """Run the named cases, or all."""
    chosen, as_json = chosen_cases("benchmarks.profile_life", __doc__, CASES)
    for name in chosen:
        figures = measure(CASES[name])
        print(json.dumps({"case": name, **figures}) if as_json else table(CASES[name].title, figures), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
