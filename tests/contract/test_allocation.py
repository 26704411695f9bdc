"""Contract of the allocator, on all databases."""

import inspect

import pytest

from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.ports.allocation import assignments_of
from sokovan.scheduling.plan import Placement, SchedulingPlan
from sokovan.testing.contracts import allocation
from sokovan.testing.contracts.allocation import CHECKS, Check
from sokovan.testing.stored_cluster import StoredCluster

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_contract(check: Check, cluster: StoredCluster) -> None:
    await check(cluster)


async def test_every_check_of_the_suite_is_run() -> None:
    written = {
        value
        for name, value in inspect.getmembers(allocation, inspect.iscoroutinefunction)
        if value.__module__ == allocation.__name__
        and list(inspect.signature(value).parameters) == ["cluster"]
        and not name.startswith("_")
    }
    assert written == set(CHECKS)


async def test_the_placements_of_a_plan_become_assignments_in_its_order() -> None:
    placed = [("s1.0", "s1", "a1"), ("s2.0", "s2", "a2"), ("s1.1", "s1", "a3")]
    placements = tuple(Placement(KernelId(kernel), SessionId(name), AgentId(agent)) for kernel, name, agent in placed)
    groups = {SessionId("s1"): {"stages/0": "rack2"}}
    plan = SchedulingPlan(placements, domains={SessionId("s2"): "rack1"}, group_domains=groups)
    found = assignments_of(plan, incarnations={AgentId("a1"): 3, AgentId("a2"): 4})
    assert [one.group_domains for one in found] == [{"stages/0": "rack2"}, {}]
    assert all(one.has_domain for one in found)
    assert [one.session_id for one in found] == ["s1", "s2"]
    assert found[0].kernels == (("s1.0", "a1"), ("s1.1", "a3"))
    assert [dict(one.incarnations) for one in found] == [{"a1": 3}, {"a2": 4}]
    assert [one.hypernode for one in found] == [None, "rack1"]
