"""The auditor checks all invariants on one state, and a healthy store satisfies them."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from sokovan.adapters.sql.invariants.auditor import INVARIANTS, NOT_CHECKED, audit
from sokovan.adapters.sql.invariants.violations import ROWS_MAX
from sokovan.adapters.sql.schema.tables import KERNELS, SESSIONS
from sokovan.adapters.sql.store import R, SqlStore, Work
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.domain.lifecycle.kernel import KernelStatus
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.testing.stored_cluster import StoredCluster
from tests.unit.adapters.sql.broken import Break, change, copied, each, findings, see
from tests.unit.adapters.sql.invariants import (
    test_eviction_invariants,
    test_freeing_invariants,
    test_history_invariants,
    test_quota_invariants,
    test_session_invariants,
    test_usage_invariants,
)

BREAKS = [
    Break(
        "I29",
        "an entry was changed",
        "UPDATE audit_log SET entry = replace(entry, 'admin', 'nobody') WHERE sequence = 2",
        {"sequence": 2},
    ),
    Break("I29", "an entry was removed", "DELETE FROM audit_log WHERE sequence = 2", {"sequence": 2}),
]
EVERY_BREAK = [
    *BREAKS,
    *test_eviction_invariants.BREAKS,
    *test_freeing_invariants.BREAKS,
    *test_usage_invariants.BREAKS,
    *test_quota_invariants.BREAKS,
    *test_session_invariants.BREAKS,
    *test_history_invariants.BREAKS,
]


@pytest.mark.slow
@each(BREAKS)
async def test_what_breaks_it_is_found_and_named(broken: Break, busy_file: Path) -> None:
    await see(broken, busy_file)


@pytest.mark.slow
async def test_a_busy_cluster_satisfies_all_invariants(busy_file: Path) -> None:
    found = await findings(copied(busy_file))
    assert [finding.invariant.id for finding in found] == [invariant.id for invariant in INVARIANTS]
    assert [(finding.invariant.id, finding.rows) for finding in found if not finding.holds] == []


@pytest.mark.slow
async def test_an_empty_store_satisfies_all_invariants() -> None:
    async with StoredCluster.open() as cluster:
        assert all(finding.holds for finding in await audit(cluster.store))


@pytest.mark.slow
async def test_the_busy_cluster_has_something_in_every_status(busy_file: Path) -> None:
    async with StoredCluster.open(f"sqlite:///{copied(busy_file)}") as cluster:

        async def statuses(unit: SqlUnitOfWork) -> list[set[str]]:
            tables = (sa.select(SESSIONS.c.status), sa.select(KERNELS.c.status))
            return [{row.status for row in await unit.transaction.fetch(table)} for table in tables]

        assert await cluster.store.read(statuses) == [set(SessionStatus), set(KernelStatus)]


def test_every_invariant_is_checked_or_has_a_reason() -> None:
    judged = [invariant.id for invariant in INVARIANTS]
    assert sorted([*judged, *NOT_CHECKED], key=lambda number: int(number[1:])) == [f"I{n}" for n in range(1, 34)]


def test_every_checked_invariant_is_violated_by_a_test() -> None:
    assert {one.invariant for one in EVERY_BREAK} == {invariant.id for invariant in INVARIANTS}


def test_the_meaning_of_an_invariant_is_one_sentence() -> None:
    assert all(invariant.meaning.count(". ") == 0 and invariant.meaning.endswith(".") for invariant in INVARIANTS)
    assert all(invariant.title == invariant.title.lower() for invariant in INVARIANTS)


async def test_only_the_named_invariants_are_checked(busy_file: Path) -> None:
    async with StoredCluster.open(f"sqlite:///{copied(busy_file)}") as cluster:
        found = await audit(cluster.store, only={"I7", "I1"})
    assert [finding.invariant.id for finding in found] == ["I1", "I7"]


@pytest.mark.slow
async def test_many_violations_are_counted_and_not_all_listed(busy_file: Path) -> None:
    file = copied(busy_file)
    change(
        file,
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 250)"
        " INSERT INTO owner_usage SELECT 'user', 'nobody' || i, 'cpu', 1, 0 FROM n",
    )
    [broken] = [finding for finding in await findings(file) if not finding.holds]
    assert (broken.invariant.id, broken.count, len(broken.rows)) == ("I1", 250, ROWS_MAX)


@pytest.mark.slow
async def test_several_invariants_may_be_violated_at_once(busy_file: Path) -> None:
    file = copied(busy_file)
    for broken in (*test_history_invariants.BREAKS[:1], *test_session_invariants.BREAKS[:1]):
        change(file, *broken.statements)
    assert [finding.invariant.id for finding in await findings(file) if not finding.holds] == ["I7", "I9"]


class CountedReads(SqlStore):
    """A store that counts how often it is read."""

    reads = 0

    async def read_long(self, work: Work[R]) -> R:
        self.reads += 1
        return await super().read_long(work)


async def test_all_invariants_see_one_state() -> None:
    async with StoredCluster.open() as cluster:
        store = CountedReads(cluster.store.database, ids=cluster.store._ids)
        await audit(store)
    assert store.reads == 1
