"""A long random story, after each part of which a source must show what is so.

`ports.snapshots` promises that a source is kept up to date by what changed; here
every kind of change happens, in an order that nobody thought of.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias, TypeVar

from sokovan.adapters.sql.invariants import audit
from sokovan.adapters.sql.snapshots import SqlSnapshots
from sokovan.domain.errors import SokovanError
from sokovan.domain.ids import AccessKey, AgentId, KernelId, QueueName, ScalingGroupName, SessionId
from sokovan.domain.lifecycle.agent import AGENT, AgentTrigger
from sokovan.domain.lifecycle.kernel import KERNEL, FreeProof, KernelTrigger
from sokovan.domain.lifecycle.machine import Cause
from sokovan.domain.lifecycle.session import Goal
from sokovan.domain.policy import ResourcePolicy
from sokovan.domain.queue import Queue
from sokovan.domain.record import Change, KernelMove, SessionRecord
from sokovan.domain.scaling_group import ScalingGroup
from sokovan.domain.slots import SlotLimits
from sokovan.domain.tenancy import Domain, Keypair, Owner, User
from sokovan.domain.topology import HyperNode
from sokovan.ports.allocation import Assignment
from sokovan.ports.sessions import SessionFilter
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.snapshot import Reservation
from sokovan.testing.contracts import expect
from sokovan.testing.contracts.fleet import agent_now, moved
from sokovan.testing.contracts.snapshots import same_as_fresh
from sokovan.testing.stored_cluster import StoredCluster

Check: TypeAlias = Callable[[StoredCluster], Awaitable[None]]
T = TypeVar("T")

STEPS = 200
STEPS_PER_LOOK = 5
AGENTS = ("a1", "a2", "a3", "a4")
GROUPS = (ScalingGroupName("default"), ScalingGroupName("other"))
USERS = ("u1", "u2")
PREPARING = (KernelTrigger.IMAGE_READY, KernelTrigger.CREATION_REQUESTED, KernelTrigger.STARTED, KernelTrigger.EXITED)
# What happens more often is named more often.
VERBS = (
    "submit", "submit", "submit", "place", "place", "place", "place", "grow", "advance", "advance", "advance",
    "advance", "stop", "force", "free", "free", "free", "enrol", "move_agent", "limit", "arrange", "remember", "note",
)  # fmt: skip


class Dice:
    """Choices that look random and are the same every time."""

    def __init__(self, seed: str) -> None:
        self._seed, self._rolls = seed, 0

    def roll(self, sides: int) -> int:
        """A number from 0 to `sides` - 1."""
        self._rolls += 1
        digest = hashlib.sha256(f"{self._seed}/{self._rolls}".encode()).digest()
        return int.from_bytes(digest[:6]) % sides

    def pick(self, options: Sequence[T]) -> T:
        """One of these."""
        return options[self.roll(len(options))]


class Story:
    """One thing after the other, whatever the dice say; what is refused is refused."""

    def __init__(self, cluster: StoredCluster, seed: str) -> None:
        self._cluster, self._dice = cluster, Dice(seed)
        self._count = 0
        self.done: list[str] = []

    async def begin(self) -> None:
        """Agents, owners and scaling groups."""
        cluster = self._cluster
        await cluster.put(*[ScalingGroup(name=group) for group in GROUPS], Domain("d"))
        for user in USERS:
            await cluster.put(User(user, "d"), Keypair(AccessKey(user), user))
        for number, agent in enumerate(AGENTS):
            await cluster.agent(agent, scaling_group=GROUPS[number % 2])

    async def go_on(self) -> None:
        """One step."""
        verb = self._dice.pick(VERBS)
        try:
            await getattr(self, f"_{verb}")()
        except SokovanError as error:
            verb = f"{verb} ({error.code})"
        self.done.append(verb)

    async def _sessions(self) -> list[SessionRecord]:
        wanted = SessionFilter()
        return list(await self._cluster.store.read(lambda unit: unit.sessions.page(wanted, limit=1000)))

    async def _submit(self) -> None:
        self._count += 1
        known = [record.session_id for record in await self._sessions()]
        user, kernels = self._dice.pick(USERS), 1 + self._dice.roll(3)
        await self._cluster.submit(
            f"s{self._count}",
            kernels=kernels,
            slots={"cpu": 500 * (1 + self._dice.roll(4)), "cuda.device": self._dice.roll(2)},
            scaling_group=self._dice.pick(GROUPS),
            owner=Owner(user, "g", "d", AccessKey(user)),
            min_kernels=self._dice.pick((None, 1)),
            dependencies=(self._dice.pick(known),) if known and self._dice.roll(3) == 0 else (),
        )

    async def _place(self) -> None:
        waiting = [record for record in await self._sessions() if record.kernels[0].agent_id is None]
        if waiting:
            record = self._dice.pick(waiting)
            chosen = record.kernels[: 1 + self._dice.roll(len(record.kernels))]
            await self._allocate(record, [kernel.kernel_id for kernel in chosen])

    async def _grow(self) -> None:
        pairs = [(record, kernel) for record in await self._sessions() for kernel in record.kernels]
        waiting = [(record, kernel) for record, kernel in pairs if kernel.agent_id is None and record.scheduled_ms]
        if waiting:
            record, kernel = self._dice.pick(waiting)
            await self._allocate(record, [kernel.kernel_id])

    async def _allocate(self, record: SessionRecord, kernels: Sequence[KernelId]) -> None:
        placed = tuple((kernel, AgentId(self._dice.pick(AGENTS))) for kernel in kernels)
        batch = await self._cluster.place_all([Assignment(record.session_id, placed)])
        for error in batch.refused.values():
            raise error

    async def _advance(self) -> None:
        pairs = [(record, kernel) for record in await self._sessions() for kernel in record.kernels]
        steps = [
            (kernel, trigger)
            for _, kernel in pairs
            for trigger in KERNEL.legal_in(kernel.status)
            if trigger in PREPARING
        ]
        if steps:
            kernel, trigger = self._dice.pick(steps)
            code = self._dice.roll(2) if trigger is KernelTrigger.EXITED else None
            by = Cause.AGENT_REPORT if trigger in PREPARING[2:] else Cause.COORDINATOR
            change = Change("contract", by)
            await self._cluster.store.run(
                lambda unit: unit.sessions.move_kernels([KernelMove(kernel, trigger, code)], change)
            )

    async def _stop(self, goal: Goal = Goal.STOP) -> None:
        records = await self._sessions()
        if records:
            await self._cluster.stop(self._dice.pick(records).session_id, goal)

    async def _force(self) -> None:
        await self._stop(Goal.FORCE)

    async def _free(self) -> None:
        kernels = [kernel for record in await self._sessions() for kernel in record.kernels]
        ending = [kernel for kernel in kernels if kernel.status == "terminating"]
        if ending:
            kernel, proof = self._dice.pick(ending), self._dice.pick(tuple(FreeProof))
            change = Change("contract", Cause.COORDINATOR)
            await self._cluster.store.run(lambda unit: unit.ledger.free([kernel], proof, change))

    async def _enrol(self) -> None:
        slots = {"cpu": 1000 * (2 + self._dice.roll(6)), "cuda.device": self._dice.roll(5)}
        agent = self._dice.pick(AGENTS)
        group = GROUPS[AGENTS.index(agent) % 2]
        labels = {"round": str(self._dice.roll(3))}
        await self._cluster.agent(agent, slots=slots, scaling_group=group, labels=labels)

    async def _move_agent(self) -> None:
        record = await agent_now(self._cluster, self._dice.pick(AGENTS))
        final = {AgentTrigger.LEFT, AgentTrigger.DECLARED_GONE}
        rows = [row for row in AGENT.moves if row.before is record.info.status and row.trigger not in final]
        row = self._dice.pick(rows)
        await moved(self._cluster, record, row.trigger, Change("contract", min(row.causes)))

    async def _limit(self) -> None:
        policy = ResourcePolicy("p", slots_max=SlotLimits({"cpu": 1000 * self._dice.roll(9)}), pending_sessions_max=5)
        user = self._dice.pick(USERS)
        name = self._dice.pick((None, "p"))
        await self._cluster.put(policy, User(user, "d", policy=name), Keypair(AccessKey(user), user, policy=name))

    async def _arrange(self) -> None:
        queue = QueueName(self._dice.pick(("q1", "q2")))
        split = 1 + self._dice.roll(3)
        await self._cluster.put(
            Queue(queue, weight=1 + self._dice.roll(9)),
            HyperNode("rack1", 1, AGENTS[:split]),
            HyperNode("rack2", 1, AGENTS[split:]),
            ScalingGroup(name=GROUPS[1], scheduler=self._dice.pick(("fifo", "drf"))),
        )

    async def _remember(self) -> None:
        group = self._dice.pick(GROUPS)
        waiting = [one for one in await self._sessions() if one.spec.scaling_group == group][: self._dice.roll(3)]
        kept = tuple(
            Reservation(one.session_id, tuple((kernel.kernel_id, AgentId("a1")) for kernel in one.kernels))
            for one in waiting
        )
        cursors = {"x": AgentId(self._dice.pick(AGENTS))} if self._dice.roll(2) else {}
        plan = SchedulingPlan(reservations=kept, cursors=cursors)
        source = SqlSnapshots(self._cluster.store)
        await source.refresh()
        await source.remember(group, plan)

    async def _note(self) -> None:
        names = [SessionId(record.session_id) for record in await self._sessions()]
        change = Change("contract", Cause.COORDINATOR, code=self._dice.pick(("no-room", "quota")))
        await self._cluster.store.run(lambda unit: unit.sessions.note(names, change))


async def told(cluster: StoredCluster, seed: str) -> None:
    """Tell one story, look after every few steps, and check the laws at its end."""
    story, source = Story(cluster, seed), SqlSnapshots(cluster.store)
    await story.begin()
    for step in range(STEPS):
        await story.go_on()
        if step % STEPS_PER_LOOK == 0:
            await same_as_fresh(cluster, source, after=f"{seed}, step {step}, {', '.join(story.done[-8:])}")
    for finding in await audit(cluster.store):
        law = finding.invariant
        expect(finding.holds, f"{seed}: {law.id} ({law.title}) does not hold: {finding.rows}")
    done = {verb for verb in story.done if "(" not in verb}
    expect(done == set(VERBS), f"{seed}: nothing of this kind happened: {set(VERBS) - done}")


async def a_source_that_followed_a_story_shows_what_is_so(cluster: StoredCluster) -> None:
    """As a source shows it that reads everything."""
    await told(cluster, "one")


async def a_source_that_followed_another_story_shows_what_is_so(cluster: StoredCluster) -> None:
    """Other choices, other orders."""
    await told(cluster, "two")


CHECKS: tuple[Check, ...] = (
    a_source_that_followed_a_story_shows_what_is_so,
    a_source_that_followed_another_story_shows_what_is_so,
)
