"""A process at work on a SQLite file, which may be killed at any statement."""

from itertools import count
from multiprocessing.connection import Connection

from sqlalchemy import event

from sokovan.domain.lifecycle.kernel import FreeProof, KernelStatus
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.testing.stored_cluster import BY_COORDINATOR, StoredCluster
from tests.integration.crowds import store_at

AGENTS = ("a1", "a2")
UNFINISHED = (SessionStatus.PENDING, SessionStatus.SCHEDULED, SessionStatus.TERMINATING)
STATEMENT = b"."


async def work_until_killed(line: Connection, url: str, life: int) -> None:
    """End what an earlier life left, then submit, allocate, stop and free; report every statement."""
    store = store_at(url)
    engine = store.database.engine.sync_engine
    for moment in ("before_cursor_execute", "commit"):
        event.listen(engine, moment, lambda *_: line.send_bytes(STATEMENT))
    cluster = StoredCluster(store)
    unfinished = SessionFilter(statuses=UNFINISHED)
    for session in await store.read(lambda unit: unit.sessions.page(unfinished, limit=100)):
        await end(cluster, session.session_id)
    for number in count():
        await one_life(cluster, f"life{life}-{number}")


async def one_life(cluster: StoredCluster, name: str) -> None:
    """Submit a session, allocate, stop and free it."""
    await cluster.submit(name, kernels=len(AGENTS))
    batch = await cluster.place(name, *AGENTS)
    assert not batch.refused, f"an earlier life has left something taken: {batch.refused}"
    await end(cluster, name)


async def end(cluster: StoredCluster, name: str) -> None:
    """Stop a session and free what it holds."""
    session = await cluster.stop(name)
    ending = [kernel for kernel in session.kernels if kernel.status is KernelStatus.TERMINATING]
    if ending:
        await cluster.store.run(lambda unit: unit.ledger.free(ending, FreeProof.NEVER_SENT, BY_COORDINATOR))
