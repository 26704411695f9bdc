"""The hash chain of the audit trail."""

import hashlib

import sqlalchemy as sa

from sokovan.adapters.sql.repositories.audit_log import BEGINNING
from sokovan.adapters.sql.schema.tables import AUDIT_LOG
from sokovan.ports.repositories.audit import AuditEntry
from sokovan.testing.clock import VirtualClock
from sokovan.testing.contracts.repositories.audit import appended
from sokovan.testing.stored_cluster import StoredCluster


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
