"""A process that is killed two hundred times at work on the same SQLite file."""

from itertools import pairwise
from pathlib import Path
from random import Random  # noqa: TID251  # seeded: the same draws on every run

import sqlalchemy as sa

from sokovan.adapters.sql.schema.tables import SESSION_HISTORY
from sokovan.adapters.sql.store import SqlStore
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.testing.stored_cluster import StoredCluster
from tests.integration.crowds import store_at, violations
from tests.integration.embedded_work import AGENTS, work_until_killed
from tests.integration.processes import Child
from tests.integration.racing import AT_EVERY_COMMIT

LIVES = 200
FULL_AUDIT_EVERY = 20
# A life that may run this far brings at least one session from its submission to its end.
STATEMENTS_MAX = 90
TIMEOUT_S = 180.0


def live_and_be_killed(url: str, life: int, *, statements: int) -> None:
    """One life, ended while it is somewhere behind its `statements`-th statement."""
    with Child(work_until_killed, url, life) as child:
        for _ in range(statements):
            if not child.line.poll(TIMEOUT_S):
                raise AssertionError(f"life {life} stands still")
            try:
                child.line.recv_bytes()
            except EOFError:
                child.result(limit_s=TIMEOUT_S)
        child.kill()


async def checked(store: SqlStore, *, whole: bool) -> int:
    """The file is sound and the invariants hold; how many sessions were ever allocated."""

    async def work(unit: SqlUnitOfWork) -> int:
        assert [tuple(row) for row in await unit.transaction.fetch(sa.text("PRAGMA integrity_check"))] == [("ok",)]
        assert await unit.transaction.fetch(sa.text("PRAGMA foreign_key_check")) == []
        allocated = sa.select(sa.func.count().label("total")).where(SESSION_HISTORY.c.trigger == "allocated")
        [row] = await unit.transaction.fetch(allocated)
        return int(row.total)

    try:
        assert await violations(store, only=() if whole else AT_EVERY_COMMIT) == []
        return await store.read(work)
    finally:
        await store.close()


async def test_no_kill_harms_the_file_and_the_next_process_goes_on(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'state.db'}"
    jitter = Random(200)  # noqa: S311  # draws for a test, no secret among them
    async with StoredCluster.open(url) as cluster:
        for agent in AGENTS:
            # Room for one session: what a killed process leaves taken must be freed by the next one.
            await cluster.agent(agent, slots={"cpu": 1000, "mem": 1 << 30}, devices=False)
    allocated = [0]
    for life in range(1, LIVES + 1):
        live_and_be_killed(url, life, statements=jitter.randint(1, STATEMENTS_MAX))
        whole = life % FULL_AUDIT_EVERY == 0
        total = await checked(store_at(url), whole=whole)
        if whole:
            allocated.append(total)
    assert all(later > earlier for earlier, later in pairwise(allocated))
