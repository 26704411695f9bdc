"""Bookings and allocations at the same time on a real server: one of both sees the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import sqlalchemy as sa

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.sql.schema.tables import AGENT_SLOTS
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.api.access.authentication import AuthenticatedPrincipal
from sokovan.api.access.bookings import permit_booking, with_agents
from sokovan.api.mapping.times import time_text
from sokovan.domain.cluster.booking import Booking
from sokovan.domain.errors import BookingConflict
from sokovan.domain.ids import AccessKey, SessionId
from sokovan.domain.owners.tenancy import Domain, Keypair, Role, User
from sokovan.ports.allocation import AllocationContext, BatchResult
from sokovan.ports.repositories.credentials import Principal
from sokovan.testing.clock import until
from sokovan.testing.stored_cluster import StoredCluster
from tests.unit.api.api_harness import api_harness

CLOCK = SystemClock()
TIMEOUT_S = 180.0
HOUR_MS = 3_600_000
ADMIN = AuthenticatedPrincipal(
    Principal(Keypair(AccessKey("AK-1"), "admin"), User("admin", "default", role=Role.ADMIN)), "digest"
)


@pytest.fixture
async def cluster(migrated_postgres_url: str) -> AsyncIterator[StoredCluster]:
    async with StoredCluster.open(migrated_postgres_url) as cluster:
        await cluster.put(Domain("default"), User("u", "default"))
        await cluster.agent("a1")
        await cluster.submit("s1")
        await cluster.snapshots.refresh()
        yield cluster


def place(cluster: StoredCluster) -> asyncio.Task[BatchResult]:
    """Place the session on the agent, by a decision that knew of no booking."""
    context = AllocationContext(bookings=cluster.snapshots.marks.bookings)
    return asyncio.create_task(cluster.place("s1", "a1", context=context))


def book(cluster: StoredCluster, before_commit: Callable[[], Awaitable[object]]) -> asyncio.Task[None]:
    """Book the agent as the API does."""

    async def work(unit: SqlUnitOfWork) -> None:
        now_ms = unit.now_ms
        wanted = Booking("demo", now_ms, now_ms + HOUR_MS, agents=("a1",), users=("u",))
        booking = await with_agents(unit, wanted)
        await permit_booking(unit, ADMIN, booking, None)
        await unit.catalog.put(booking)
        await before_commit()

    return asyncio.create_task(cluster.store.run(work))


async def waiting(cluster: StoredCluster, count: int) -> None:
    """Wait until so many transactions wait for locks."""
    statement = sa.text(
        "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )

    async def are_there() -> bool:
        [row] = await cluster.store.read(lambda unit: unit.transaction.fetch(statement))
        return int(row.n) >= count

    await until(are_there, elapse=CLOCK.sleep, limit_s=TIMEOUT_S)


async def nothing() -> None:
    """Commit at once."""


async def test_a_booking_waits_for_an_allocation_under_way_and_is_refused_by_it(cluster: StoredCluster) -> None:
    held, released = asyncio.Event(), asyncio.Event()

    async def hold_slots(unit: SqlUnitOfWork) -> None:
        await unit.transaction.execute(sa.update(AGENT_SLOTS).values(used=AGENT_SLOTS.c.used))
        held.set()
        await released.wait()

    # The allocation has verified everything, and waits for the row that it writes last.
    holder = asyncio.create_task(cluster.store.run(hold_slots))
    await held.wait()
    placed = place(cluster)
    await waiting(cluster, 1)
    booked = book(cluster, nothing)
    await waiting(cluster, 2)
    released.set()
    await holder

    assert not (await placed).refused
    with pytest.raises(BookingConflict, match="cannot be met"):
        await booked


async def test_an_allocation_waits_for_a_booking_that_is_accepted_and_is_refused(cluster: StoredCluster) -> None:
    accepted, commits = asyncio.Event(), asyncio.Event()

    async def before_commit() -> None:
        accepted.set()
        await commits.wait()

    booked = book(cluster, before_commit)
    await accepted.wait()
    placed = place(cluster)
    await waiting(cluster, 1)
    commits.set()
    await booked

    refused = (await placed).refused
    assert "the bookings have changed since the decision" in refused[SessionId("s1")].problem


async def test_of_several_that_create_the_same_booking_at_once_one_does(migrated_postgres_url: str) -> None:
    async with api_harness(url=migrated_postgres_url) as api:
        names = ("b1", "b2", "b3")
        for name in names:
            await api.cluster.agent(name)
        now_ms = await api.cluster.store.read(_now)
        times = {"starts_at": time_text(now_ms + HOUR_MS), "ends_at": time_text(now_ms + 2 * HOUR_MS)}

        async def create(name: str) -> tuple[int, str]:
            body = {"name": "demo", "kind": "maintenance", "agents": [name], **times}
            answer = await api.call("PUT", "/bookings/demo?replace=false", json=body)
            return answer.status_code, answer.json().get("code", "")

        made = sorted(await asyncio.gather(*map(create, names)))
        assert made == [(201, ""), (409, "already-exists"), (409, "already-exists")]


async def _now(unit: SqlUnitOfWork) -> int:
    return unit.now_ms


async def test_a_dry_run_and_the_list_of_evictions_only_read(migrated_postgres_url: str) -> None:
    async with api_harness(url=migrated_postgres_url) as api:
        await api.cluster.agent("b9", slots={"cpu": 4000, "tpu.device": 4})
        now_ms = await api.cluster.store.read(_now)
        times = {"starts_at": time_text(now_ms + HOUR_MS), "ends_at": time_text(now_ms + 2 * HOUR_MS)}
        body = {"name": "wide", "slots": {"tpu.device": 4}, "queues": ["default"], **times}
        seen = await api.call("PUT", "/bookings/wide?dry_run=true", json=body)
        assert (seen.status_code, seen.json()["agents"], seen.json()["planned"]) == (200, ["b9"], [])
        assert (await api.get("/bookings/wide")).status_code == 404
        assert (await api.call("PUT", "/bookings/wide", json=body)).status_code == 201
        assert (await api.get("/bookings/wide/evictions")).json()["evicted"] == []
