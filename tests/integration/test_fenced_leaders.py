"""Leaders that come and go on a real server: none writes after the end of its term."""

import asyncio
import signal
from collections.abc import AsyncIterator

import pytest
import sqlalchemy as sa

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.sql.schema.tables import LEASE_TERMS, SESSION_HISTORY
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.domain.records import SessionRecord
from sokovan.ports.leases import Lease
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.testing.clock import until
from sokovan.testing.stored_cluster import BY_COORDINATOR, StoredCluster, session_spec
from tests.integration.crowds import store_at, violations
from tests.integration.late_leader import LEASE, lead_and_be_late, outcome_of_allocation, outcome_of_enqueue
from tests.integration.processes import Child

CLOCK = SystemClock()
TIMEOUT_S = 180.0
TERMS = 50
SHORT_S = 0.3
LONG_S = 600.0


@pytest.fixture
async def cluster(migrated_postgres_url: str) -> AsyncIterator[StoredCluster]:
    async with StoredCluster.open(migrated_postgres_url) as cluster:
        await cluster.agent("a1", slots={"cpu": 1_000_000}, devices=False)
        yield cluster


async def acquired(cluster: StoredCluster, holder: str) -> Lease:
    """The lease, as soon as it can be had."""
    leases: list[Lease] = []

    async def has_it() -> bool:
        lease = await cluster.leases.acquire(LEASE, holder=holder, ttl_s=LONG_S)
        leases.extend([] if lease is None else [lease])
        return bool(leases)

    await until(has_it, elapse=CLOCK.sleep, limit_s=TIMEOUT_S)
    return leases[0]


async def names(cluster: StoredCluster, status: SessionStatus) -> set[str]:
    found = await cluster.store.read(lambda unit: unit.sessions.page(SessionFilter(statuses=[status]), limit=1000))
    return {session.session_id for session in found}


async def test_a_leader_that_was_stopped_over_the_end_of_its_term_is_fenced_out(
    cluster: StoredCluster, migrated_postgres_url: str
) -> None:
    await cluster.submit("waiting", slots={"cpu": 1})
    with Child(lead_and_be_late, migrated_postgres_url, SHORT_S) as late:
        assert late.line.poll(TIMEOUT_S)
        assert late.line.recv() == 1
        late.send_signal(signal.SIGSTOP)
        lease = await acquired(cluster, "next")
        assert lease.epoch == 2
        late.line.send("write")
        late.send_signal(signal.SIGCONT)
        assert await asyncio.to_thread(late.result, limit_s=TIMEOUT_S) == ["fenced out", "fenced out"]
    assert await names(cluster, SessionStatus.PENDING) == {"waiting"}
    assert await outcome_of_allocation(cluster, lease, "waiting", "a1") == "written"
    assert await violations(cluster.store) == []


async def test_a_write_under_way_at_the_end_of_the_term_ends_before_the_next_term_begins(
    cluster: StoredCluster, migrated_postgres_url: str
) -> None:
    lease = await cluster.leases.acquire(LEASE, holder="slow", ttl_s=SHORT_S)
    assert lease is not None
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def slow(unit: SqlUnitOfWork) -> SessionRecord:
        record = await unit.sessions.enqueue(session_spec("slow"), BY_COORDINATOR)
        begun.set()
        await may_end.wait()
        return record

    async def a_manager_waits_for_the_lease() -> bool:
        question = sa.text(
            "SELECT count(*) AS waiting FROM pg_stat_activity WHERE datname = current_database()"
            " AND wait_event_type = 'Lock' AND query LIKE '%FROM leases%'"
        )
        row = await cluster.store.read(lambda unit: unit.transaction.first(question))
        return row is not None and bool(row.waiting)

    writing = asyncio.ensure_future(cluster.store.run_sql(slow, fence=lease.fence))
    await begun.wait()
    other = StoredCluster(store_at(migrated_postgres_url))
    taking = asyncio.ensure_future(acquired(other, "next"))
    await until(a_manager_waits_for_the_lease, elapse=CLOCK.sleep, limit_s=TIMEOUT_S)
    assert not taking.done()
    may_end.set()
    assert (await writing).session_id == "slow"
    assert (await taking).epoch == 2
    await other.store.close()
    assert await outcome_of_enqueue(cluster, lease, "too-late") == "fenced out"
    assert await violations(cluster.store) == []


async def written_until_fenced_out(cluster: StoredCluster, lease: Lease) -> list[str]:
    """The sessions that a leader writes, who does not ask whether it still leads."""
    written: list[str] = []
    while True:
        name = f"epoch{lease.epoch}-{len(written)}"
        if await outcome_of_enqueue(cluster, lease, name) == "fenced out":
            return written
        written.append(name)
        if await outcome_of_allocation(cluster, lease, name, "a1") == "fenced out":
            return written


async def test_every_write_of_two_managers_that_take_turns_has_the_epoch_of_its_term(
    cluster: StoredCluster, migrated_postgres_url: str
) -> None:
    managers = {name: StoredCluster(store_at(migrated_postgres_url)) for name in ("m1", "m2")}
    written: dict[str, tuple[str, int]] = {}
    lease = await acquired(managers["m1"], "m1")
    for _ in range(TERMS):
        holder, other = (lease.holder, "m2" if lease.holder == "m1" else "m1")
        first = f"epoch{lease.epoch}"
        assert await outcome_of_enqueue(managers[holder], lease, first) == "written"
        # The term ends, and the other one's begins, while this leader goes on writing.
        turn = asyncio.gather(
            written_until_fenced_out(managers[holder], lease),
            managers[holder].leases.release(lease),
            acquired(managers[other], other),
        )
        names_written, _, following = await asyncio.wait_for(turn, TIMEOUT_S)
        written.update(dict.fromkeys([first, *names_written], (holder, lease.epoch)))
        lease = following
    for manager in managers.values():
        await manager.store.close()
    assert lease.epoch == TERMS + 1
    assert await recorded(cluster) == written
    assert len(written) >= TERMS
    assert await violations(cluster.store) == []


async def recorded(cluster: StoredCluster) -> dict[str, tuple[str, int]]:
    """The writer and epoch of each session, by its history; every line must agree with the terms."""

    async def work(unit: SqlUnitOfWork) -> dict[str, tuple[str, int]]:
        terms = await unit.transaction.fetch(sa.select(LEASE_TERMS).order_by(LEASE_TERMS.c.epoch))
        assert [term.epoch for term in terms] == list(range(1, len(terms) + 1))
        holders = {term.epoch: term.holder for term in terms}
        lines = await unit.transaction.fetch(sa.select(SESSION_HISTORY))
        assert all(line.who == holders[line.epoch] for line in lines)
        return {line.object_id: (line.who, line.epoch) for line in lines}

    return await cluster.store.read(work)
