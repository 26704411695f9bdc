"""A process that leads, is stopped over the end of its term, and then writes."""

from multiprocessing.connection import Connection

from sokovan.domain.errors import FencedOut
from sokovan.domain.records import Change
from sokovan.ports.allocation import AllocationContext
from sokovan.ports.leases import Lease
from sokovan.testing.stored_cluster import BY_COORDINATOR, StoredCluster, assignment, session_spec
from tests.integration.crowds import store_at

LEASE = "scheduler"


async def lead_and_be_late(line: Connection, url: str, ttl_s: float) -> list[str]:
    """Take the lease, send its epoch, write on request, and return the outcome of each write."""
    cluster = StoredCluster(store_at(url))
    lease = await cluster.leases.acquire(LEASE, holder="late", ttl_s=ttl_s)
    assert lease is not None
    line.send(lease.epoch)
    line.recv()
    outcomes = [
        await outcome_of_enqueue(cluster, lease, "too-late"),
        await outcome_of_allocation(cluster, lease, "waiting", "a1"),
    ]
    await cluster.store.close()
    return outcomes


async def outcome_of_enqueue(cluster: StoredCluster, lease: Lease, name: str) -> str:
    """The outcome of a new session that this leader writes."""
    change = Change(who=lease.holder, by=BY_COORDINATOR.by)
    try:
        await cluster.store.run(
            lambda unit: unit.sessions.enqueue(session_spec(name, slots={"cpu": 1}), change), fence=lease.fence
        )
    except FencedOut:
        return "fenced out"
    return "written"


async def outcome_of_allocation(cluster: StoredCluster, lease: Lease, name: str, agent: str) -> str:
    """The outcome of an allocation that this leader decides."""
    context = AllocationContext(who=lease.holder, fence=lease.fence)
    try:
        batch = await cluster.place_all([assignment(name, agent)], context=context)
    except FencedOut:
        return "fenced out"
    return "written" if batch.allocated else "refused"
