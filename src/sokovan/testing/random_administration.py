"""Random administration of a cluster: agents, limits, queues and racks."""

from __future__ import annotations

from sokovan.adapters.sql.snapshots.source import SqlSnapshots
from sokovan.domain.cluster.queue import Queue
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.cluster.topology import HyperNode
from sokovan.domain.cluster.topology_rules import TierRule, Topology
from sokovan.domain.ids import AccessKey, AgentId, QueueName
from sokovan.domain.lifecycle.agent import AGENT, AgentTrigger
from sokovan.domain.owners.policy import ResourcePolicy
from sokovan.domain.owners.tenancy import Domain, Keypair, User
from sokovan.domain.records import Change
from sokovan.domain.slots import SlotLimits
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.snapshot import Reservation
from sokovan.testing.random_work import AGENTS, GROUPS, USERS, Dice
from sokovan.testing.stored_cluster import StoredCluster


class RandomAdministration:
    """Random actions of operators and coordinators, one per method."""

    def __init__(self, cluster: StoredCluster, dice: Dice) -> None:
        self._cluster, self._dice = cluster, dice

    async def begin(self) -> None:
        """Create agents, owners and scaling groups."""
        cluster = self._cluster
        await cluster.put(*[ScalingGroup(name=group) for group in GROUPS], Domain("d"))
        for user in USERS:
            await cluster.put(User(user, "d"), Keypair(AccessKey(user), user))
        for number, agent in enumerate(AGENTS):
            await cluster.agent(agent, scaling_group=GROUPS[number % 2])

    async def enrol(self) -> None:
        """Enrol an agent again, with another capacity."""
        slots = {"cpu": 1000 * (2 + self._dice.roll(6)), "cuda.device": self._dice.roll(5)}
        agent = self._dice.pick(AGENTS)
        group = GROUPS[AGENTS.index(agent) % 2]
        labels = {"round": str(self._dice.roll(3))}
        await self._cluster.agent(agent, slots=slots, scaling_group=group, labels=labels)

    async def move_agent(self) -> None:
        """Make a random legal move of an agent, except to its end."""
        agent = AgentId(self._dice.pick(AGENTS))
        record = await self._cluster.store.read(lambda unit: unit.fleet.get(agent))
        final = {AgentTrigger.LEFT, AgentTrigger.DECLARED_GONE}
        rows = [row for row in AGENT.moves if row.before is record.info.status and row.trigger not in final]
        row = self._dice.pick(rows)
        change = Change("random", min(row.causes))
        await self._cluster.store.run(lambda unit: unit.fleet.move(record, row.trigger, change))

    async def limit(self) -> None:
        """Set or remove a limit of an owner."""
        policy = ResourcePolicy("p", slots_max=SlotLimits({"cpu": 1000 * self._dice.roll(9)}), pending_sessions_max=5)
        user = self._dice.pick(USERS)
        name = self._dice.pick((None, "p"))
        await self._cluster.put(policy, User(user, "d", policy=name), Keypair(AccessKey(user), user, policy=name))

    async def arrange(self) -> None:
        """Change queues, racks and a scaling group."""
        queue = QueueName(self._dice.pick(("q1", "q2")))
        split = 1 + self._dice.roll(3)
        await self._cluster.put(
            Queue(queue, weight=1 + self._dice.roll(9)),
            Topology(
                (TierRule(2, "zone", "zone"),),
                (HyperNode("rack1", 1, AGENTS[:split]), HyperNode("rack2", 1, AGENTS[split : split + 1])),
            ),
            ScalingGroup(name=GROUPS[1], scheduler=self._dice.pick(("fifo", "drf"))),
        )

    async def remember(self) -> None:
        """Record reservations and cursors of a cycle."""
        group = self._dice.pick(GROUPS)
        wanted, count = SessionFilter(scaling_group=group), self._dice.roll(3)
        waiting = await self._cluster.store.read(lambda unit: unit.sessions.page(wanted, limit=count))
        kept = tuple(
            Reservation(one.session_id, tuple((kernel.kernel_id, AgentId("a1")) for kernel in one.kernels))
            for one in waiting
        )
        cursors = {"x": AgentId(self._dice.pick(AGENTS))} if self._dice.roll(2) else {}
        plan = SchedulingPlan(reservations=kept, cursors=cursors)
        source = SqlSnapshots(self._cluster.store)
        await source.refresh()
        await source.record_plan(group, plan)
