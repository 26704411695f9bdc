"""Contract of the session repository, on all databases."""

import inspect

import pytest

from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import ScalingGroupName
from sokovan.domain.lifecycle.agent import AgentTrigger
from sokovan.domain.lifecycle.kernel import FreeProof
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.owners.usage_history import UsageBy, UsageOf, UsageWindow
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.testing.contracts.repositories import sessions
from sokovan.testing.contracts.repositories.sessions import CHECKS, Check
from sokovan.testing.stored_cluster import BY_USER, StoredCluster

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_contract(check: Check, cluster: StoredCluster) -> None:
    await check(cluster)


async def test_sessions_wait_until_they_start_and_run_until_they_end(cluster: StoredCluster) -> None:
    mine, agent, name = Owner(user=cluster.new("u")), cluster.new("a"), cluster.new("s")
    await cluster.agent(agent)
    record = await cluster.submit(name, owner=mine)
    await cluster.place(name, agent)
    await cluster.start(name)
    await cluster.submit(cluster.new("s"), owner=mine)
    window = UsageWindow(record.submitted_ms - 20_000, record.submitted_ms + 40_000, 10_000)
    chosen = SessionFilter(user=mine.user)
    for running in (1, 0):
        found = await cluster.store.read(
            lambda unit: unit.sessions.usage_history(chosen, window, UsageBy.ALL, UsageOf.SESSIONS)
        )
        levels = [(one.slot, one.used[0], one.used[-1]) for one in found]
        assert levels == [("running", 0, running), ("waiting", 0, 1)]
        if running:
            await cluster.stop(record.session_id)
            await cluster.free(record.session_id, FreeProof.AGENT_TOMBSTONE)


async def test_gpus_are_waited_for_until_their_session_starts(cluster: StoredCluster) -> None:
    mine = Owner(user=cluster.new("u"))
    record = await cluster.submit(cluster.new("s"), owner=mine, kernels=2, slots={"cuda.device": 4})
    for _ in range(3):
        await cluster.submit(cluster.new("s"), owner=mine, slots={"cuda.shares": 500})
    await cluster.submit(cluster.new("s"), owner=mine)
    window = UsageWindow(record.submitted_ms - 20_000, record.submitted_ms + 40_000, 10_000)
    found = await cluster.store.read(
        lambda unit: unit.sessions.usage_history(SessionFilter(user=mine.user), window, UsageBy.ALL, UsageOf.GPUS)
    )
    # Eight, and three halves.
    assert [(one.slot, one.used[0], one.used[-1]) for one in found] == [("waiting", 0, 10)]


async def test_agents_are_counted_while_they_take_kernels(cluster: StoredCluster) -> None:
    group = cluster.new("g")
    await cluster.put(ScalingGroup(ScalingGroupName(group)))
    for number in range(2):
        record = await cluster.agent(cluster.new(f"a{number}"), scaling_group=ScalingGroupName(group))
    now_ms = (await cluster.submit(cluster.new("s"))).submitted_ms
    window = UsageWindow(now_ms - 20_000, now_ms + 40_000, 10_000)
    for alive in (2, 1):
        found = await cluster.store.read(
            lambda unit: unit.sessions.usage_history(
                SessionFilter(scaling_group=group), window, UsageBy.ALL, UsageOf.AGENTS
            )
        )
        assert [(one.slot, one.used[0], one.used[-1]) for one in found] == [("alive", 0, alive)]
        if alive == 2:
            await cluster.store.run(lambda unit: unit.fleet.move(record, AgentTrigger.DRAIN_REQUESTED, BY_USER))


async def test_every_check_of_the_suite_is_run() -> None:
    written = {
        value
        for name, value in inspect.getmembers(sessions, inspect.iscoroutinefunction)
        if value.__module__ == sessions.__name__
        and list(inspect.signature(value).parameters) == ["cluster"]
        and not name.startswith("_")
    }
    assert written == set(CHECKS)
