"""Random administration leaves a cluster in order."""

import pytest

from sokovan.adapters.sql.invariants.auditor import audit
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.testing.random_administration import RandomAdministration
from sokovan.testing.random_work import AGENTS, GROUPS, Dice
from sokovan.testing.stored_cluster import StoredCluster


async def test_it_begins_with_agents_in_every_scaling_group() -> None:
    async with StoredCluster.open() as cluster:
        await RandomAdministration(cluster, Dice("x")).begin()
        groups = await cluster.store.read(lambda unit: unit.catalog.all(ScalingGroup))
        agents = await cluster.store.read(lambda unit: unit.fleet.all())
        assert [group.name for group in groups] == sorted(GROUPS)
        assert [agent.info.agent_id for agent in agents] == sorted(AGENTS)
        assert {agent.info.scaling_group for agent in agents} == set(GROUPS)


@pytest.mark.slow
async def test_the_invariants_hold_and_no_agent_is_removed() -> None:
    async with StoredCluster.open() as cluster:
        dice = Dice("x")
        office = RandomAdministration(cluster, dice)
        await office.begin()
        verbs = [office.enrol, office.move_agent, office.limit, office.arrange, office.remember]
        for _ in range(60):
            await dice.pick(verbs)()
        assert all(finding.holds for finding in await audit(cluster.store))
        agents = await cluster.store.read(lambda unit: unit.fleet.all())
        assert AgentStatus.TERMINATED not in {agent.info.status for agent in agents}
        assert max(agent.info.incarnation for agent in agents) > 1
