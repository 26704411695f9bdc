"""The quota invariant: lowering a limit is no violation, exceeding one is."""

from __future__ import annotations

from pathlib import Path

import pytest

from sokovan.adapters.sql.invariants.auditor import audit
from sokovan.domain.owners.policy import ResourcePolicy
from sokovan.domain.owners.tenancy import Domain, Group, Owner
from sokovan.domain.slots import SlotLimits
from sokovan.testing.clock import VirtualClock
from sokovan.testing.stored_cluster import StoredCluster
from tests.unit.adapters.sql.broken import Break, each, see

pytestmark = pytest.mark.slow

BREAKS = [
    Break(
        "I15",
        "a user was served past a limit of slots",
        "UPDATE resource_policies SET changed_ms = 1",
        {"scope": "user", "name": "alice", "slot": "cpu", "used": 2000, "limit": 100, "limited_ms": 1},
    ),
    Break(
        "I15",
        "a keypair was served past its number of sessions",
        """UPDATE resource_policies SET changed_ms = 1, body = '{"name": "little", "sessions_max": 1}'""",
        {"scope": "keypair", "name": "AKALICE", "slot": "#sessions", "used": 2, "limit": 1},
    ),
    Break(
        "I15",
        "a limit cannot be read",
        "UPDATE resource_policies SET body = '[]'",
        {},
    ),
]


@each(BREAKS)
async def test_what_breaks_it_is_found_and_named(broken: Break, busy_file: Path) -> None:
    await see(broken, busy_file)


async def held_by_a_group(clock: VirtualClock, cluster: StoredCluster) -> None:
    """A group that holds two cores, and time that passes."""
    await cluster.agent("a1")
    await cluster.put(Domain("default"), Group("lab", "default"))
    for name in ("one", "two"):
        await cluster.submit(name, owner=Owner(group="lab"))
        await cluster.place(name, "a1")
    await clock.advance(60)


async def violated_invariants(cluster: StoredCluster) -> list[str]:
    """The invariants that do not hold."""
    return [finding.invariant.id for finding in await audit(cluster.store) if not finding.holds]


async def test_an_owner_above_a_new_limit_keeps_its_usage() -> None:
    clock = VirtualClock()
    async with StoredCluster.open(clock=clock) as cluster:
        await cluster.put(ResourcePolicy("core", slots_max=SlotLimits({"cpu": 1000})))
        await held_by_a_group(clock, cluster)
        # The policy is older than what is held; that it applies to the group is not.
        await cluster.put(Group("lab", "default", policy="core"))
        assert await violated_invariants(cluster) == []


async def test_a_kernel_that_takes_nothing_of_a_limited_slot_breaks_no_limit() -> None:
    clock = VirtualClock()
    async with StoredCluster.open(clock=clock) as cluster:
        await held_by_a_group(clock, cluster)
        await cluster.put(ResourcePolicy("core", slots_max=SlotLimits({"cpu": 1000})))
        await cluster.put(Group("lab", "default", policy="core"))
        await clock.advance(60)
        await cluster.submit("memory", slots={"mem": 1024}, owner=Owner(group="lab"))
        placed = await cluster.place("memory", "a1")
        assert placed.refused == {}
        assert await violated_invariants(cluster) == []
