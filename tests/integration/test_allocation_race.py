"""Eight processes allocate on the same twenty agents of a real server, and a ninth watches."""

import os
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack

import sqlalchemy as sa

from sokovan.adapters.sql.schema.tables import SESSION_HISTORY, SESSIONS
from sokovan.adapters.sql.store import SqlStore
from sokovan.ports.allocation import AllocationRefused
from sokovan.testing.stored_cluster import StoredCluster
from tests.integration.crowds import submit_many, violations
from tests.integration.processes import Child, results
from tests.integration.racing import Entry, Race, Unwatched, race, watch

RACERS = 8
AGENTS = tuple(f"agent-{number:02}" for number in range(20))
LOOKS_MIN = 50
# `make fuzz` races for ten thousand sessions; the agents have room for four fifths of them.
SESSIONS_TOTAL = 10_000 if os.environ.get("SOKOVAN_EXAMPLES") == "fuzz" else 2_500
GANGS = {4: 240, 7: 160, 12: 120, 20: 70, 32: 50}
CAPACITY = SESSIONS_TOTAL * 40
# Together they keep less than there is room for.
KEEP_MAX = SESSIONS_TOTAL * 95 // 1000
TOO_MUCH = CAPACITY + 1


async def run_race(url: str, races: Sequence[Race]) -> Counter[str]:
    """Let them race; what they did in all. The invariants held whenever the watcher looked."""
    unwatched = Unwatched.shared()
    with ExitStack() as stack:
        watcher = stack.enter_context(Child(watch, url, unwatched))
        racers = [stack.enter_context(Child(race, part, unwatched)) for part in races]
        counts = results(racers)
        watcher.line.send("stop")
        looks, found = watcher.result()
    assert found == []
    assert looks >= LOOKS_MIN
    return sum(counts, Counter[str]())


def share(entries: Sequence[Entry], number: int) -> tuple[Entry, ...]:
    """Every eighth entry, and of every tenth a second and third racer has it too."""
    mine = [
        entry
        for index, entry in enumerate(entries)
        if index % RACERS == number or (index % 10 == 0 and (index // 10) % RACERS in {number, (number + 3) % RACERS})
    ]
    return tuple(mine)


async def histories(store: SqlStore) -> Counter[tuple[str, int, bool]]:
    """Count the sessions by status, number of allocations, and whether a reason is noted."""
    allocated = sa.func.sum(sa.case((SESSION_HISTORY.c.trigger == "allocated", 1), else_=0))
    noted = sa.func.max(sa.case((SESSION_HISTORY.c.code == AllocationRefused.code, 1), else_=0))
    statement = (
        sa.select(SESSIONS.c.status, allocated.label("allocations"), noted.label("noted"))
        .join(SESSION_HISTORY, SESSION_HISTORY.c.object_id == SESSIONS.c.session_id)
        .group_by(SESSIONS.c.session_id, SESSIONS.c.status)
    )
    rows = await store.read(lambda unit: unit.transaction.fetch(statement))
    return Counter((row.status, int(row.allocations), bool(row.noted)) for row in rows)


async def test_thousands_of_sessions_on_twenty_hot_agents_are_each_allocated_once(migrated_postgres_url: str) -> None:
    entries = [Entry(f"s{number:05}") for number in range(SESSIONS_TOTAL - 20)]
    hopeless = tuple(Entry(f"h{number:02}", cpu=TOO_MUCH, hopeless=True) for number in range(20))
    async with StoredCluster.open(migrated_postgres_url) as cluster:
        for agent in AGENTS:
            await cluster.agent(agent, slots={"cpu": CAPACITY}, devices=False)
        await submit_many(cluster, [entry.name for entry in entries])
        await submit_many(cluster, [entry.name for entry in hopeless], cpu=TOO_MUCH)
        races = [
            Race(migrated_postgres_url, number, AGENTS, (*share(entries, number), *hopeless), keep_max=KEEP_MAX)
            for number in range(RACERS)
        ]
        counts = await run_race(migrated_postgres_url, races)
        found = await histories(cluster.store)
        assert await violations(cluster.store) == []
    assert sum(found.values()) == SESSIONS_TOTAL
    waiting = {history: count for history, count in found.items() if history[0] == "pending"}
    assert waiting == {("pending", 0, True): len(hopeless)}
    assert all(allocations == 1 for status, allocations, _ in found if status != "pending")
    assert counts["allocated"] == len(entries)
    # The race was one: agents were full, and several wanted the same session.
    assert counts["AllocationRefused"] > RACERS * len(hopeless)
    assert counts["SessionNotWaiting"] > 0


async def test_gangs_race_with_cancels_and_terminations_and_are_never_split(migrated_postgres_url: str) -> None:
    entries = [Entry(f"g{size:02}-{number:03}", size) for size, total in GANGS.items() for number in range(total)]
    async with StoredCluster.open(migrated_postgres_url) as cluster:
        for agent in AGENTS:
            await cluster.agent(agent, slots={"cpu": 48_000}, devices=False)
        for size in GANGS:
            await submit_many(cluster, [entry.name for entry in entries if entry.kernels == size], kernels=size)
        races = [
            Race(
                migrated_postgres_url,
                number,
                AGENTS,
                share(entries, number),
                keep_max=6,
                batches=(1, 1, 2, 4, 8),
                to_stop=tuple(entry.name for entry in entries[number % 4 :: 4]),
            )
            for number in range(RACERS)
        ]
        counts = await run_race(migrated_postgres_url, races)
        found = await histories(cluster.store)
        assert await violations(cluster.store) == []
    assert sum(found.values()) == len(entries)
    assert all(allocations == 1 for status, allocations, _ in found if status in {"scheduled", "terminated"})
    assert all(allocations == 0 for status, allocations, _ in found if status in {"pending", "cancelled"})
    assert counts["allocated"] == sum(count for history, count in found.items() if history[1] == 1)
    # Some were stopped before they were allocated, some after.
    assert sum(count for history, count in found.items() if history[0] == "cancelled") > 0
    assert sum(count for history, count in found.items() if history[0] == "terminated") > 0
    assert counts["AllocationRefused"] > 0
    assert counts["SessionNotWaiting"] > 0
