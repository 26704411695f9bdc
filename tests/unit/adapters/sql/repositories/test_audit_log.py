"""The hash chain of the audit trail."""

import hashlib

import sqlalchemy as sa

from sokovan.adapters.sql.repositories.audit_log import BEGINNING, REMOVED
from sokovan.adapters.sql.schema.tables import AUDIT_LOG
from sokovan.ports.repositories.audit import AuditEntry
from sokovan.ports.storage import StoreRetention
from sokovan.testing.clock import VirtualClock
from sokovan.testing.contracts.repositories.audit import appended
from sokovan.testing.stored_cluster import StoredCluster

DAY_S = 24 * 3600


async def test_a_digest_covers_the_previous_digest_number_time_and_content() -> None:
    async with StoredCluster.open(clock=VirtualClock(now_ms=1_000)) as cluster:
        await appended(cluster, AuditEntry("u1", "stop", "s1", "done"), AuditEntry("u1", "stop", "s2", "done"))
        rows = await cluster.store.read(lambda unit: unit.transaction.fetch(sa.select(AUDIT_LOG)))
        previous = BEGINNING
        for number, row in enumerate(rows, start=1):
            text = f"{previous}\n{number}\n1000\n{row.entry}"
            assert row.previous == previous
            assert row.digest == hashlib.sha256(text.encode()).hexdigest()
            previous = row.digest


async def test_equal_entries_have_equal_content_in_any_order_of_details() -> None:
    async with StoredCluster.open() as cluster:
        for detail in ({"a": "1", "b": "2"}, {"b": "2", "a": "1"}):
            await appended(cluster, AuditEntry("u1", "stop", "s1", "done", detail=detail))
        rows = await cluster.store.read(lambda unit: unit.transaction.fetch(sa.select(AUDIT_LOG)))
        assert rows[0].entry == rows[1].entry


async def test_entries_beyond_their_retention_are_removed_and_the_rest_is_still_verified() -> None:
    clock, week = VirtualClock(now_ms=1_000), StoreRetention(sessions_s=0, sessions_per_user_max=0, audit_s=7 * DAY_S)
    async with StoredCluster.open(clock=clock) as cluster:
        await appended(cluster, *(AuditEntry("u1", "stop", f"s{number}", "done") for number in range(5)))
        await clock.advance(7.5 * DAY_S)
        await appended(cluster, AuditEntry("u1", "stop", "new", "done"))
        await cluster.store.expire(week)
        assert len(await kept(cluster)) == 6, "few entries are removed when they are a day too old"

        await clock.advance(DAY_S)
        await cluster.store.expire(week)
        assert await kept(cluster) == [(6, "stop"), (7, REMOVED)]
        # A user may choose the name of the action for a session.
        await appended(cluster, AuditEntry("u1", "session.enqueue", "s9", "done", detail={"name": REMOVED}))
        assert await cluster.store.read(lambda unit: unit.audit.first_broken()) is None

        await cluster.store.run_sql(
            lambda unit: unit.transaction.execute(sa.delete(AUDIT_LOG).where(AUDIT_LOG.c.sequence == 6))
        )
        assert await cluster.store.read(lambda unit: unit.audit.first_broken()) == 1


async def kept(cluster: StoredCluster) -> list[tuple[int, str]]:
    """Numbers and actions of the entries."""
    found = await cluster.store.read(lambda unit: unit.audit.page(limit=99))
    return [(number, entry.action) for number, _, entry in found]
