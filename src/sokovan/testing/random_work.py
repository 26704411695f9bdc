"""Random use of a cluster: sessions are submitted, placed, run and ended.

The choices are seeded, so that a run can be repeated; refused actions raise.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

from sokovan.domain.ids import AccessKey, AgentId, KernelId, ScalingGroupName, SessionId
from sokovan.domain.lifecycle.kernel import KERNEL, FreeProof, KernelTrigger
from sokovan.domain.lifecycle.session import Goal
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.records import Change, KernelMove, SessionRecord
from sokovan.ports.allocation import Assignment
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.testing.stored_cluster import StoredCluster

T = TypeVar("T")

AGENTS = ("a1", "a2", "a3", "a4")
GROUPS = (ScalingGroupName("default"), ScalingGroupName("other"))
USERS = ("u1", "u2")
STEPS = (KernelTrigger.IMAGE_READY, KernelTrigger.CREATION_REQUESTED, KernelTrigger.STARTED, KernelTrigger.EXITED)


class Dice:
    """Seeded random choices."""

    def __init__(self, seed: str) -> None:
        self._seed, self._rolls = seed, 0

    def roll(self, sides: int) -> int:
        """A number from 0 to `sides` - 1."""
        self._rolls += 1
        digest = hashlib.sha256(f"{self._seed}/{self._rolls}".encode()).digest()
        return int.from_bytes(digest[:6]) % sides

    def pick(self, options: Sequence[T]) -> T:
        """One of the options."""
        return options[self.roll(len(options))]


class RandomWork:
    """Random actions on sessions; a method does one thing, or nothing."""

    def __init__(self, cluster: StoredCluster, dice: Dice) -> None:
        self._cluster, self._dice = cluster, dice
        self._count = 0

    async def submit(self) -> None:
        """Submit a session, sometimes with a dependency."""
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

    async def place(self) -> None:
        """Allocate a pending session on random agents, which may be refused."""
        waiting = [record for record in await self._sessions() if record.kernels[0].agent_id is None]
        if waiting:
            record = self._dice.pick(waiting)
            chosen = record.kernels[: 1 + self._dice.roll(len(record.kernels))]
            await self._allocate(record, [kernel.kernel_id for kernel in chosen])

    async def grow(self) -> None:
        """Allocate one more kernel of a session."""
        pairs = [(record, kernel) for record in await self._sessions() for kernel in record.kernels]
        waiting = [(record, kernel) for record, kernel in pairs if kernel.agent_id is None and record.scheduled_ms]
        if waiting:
            record, kernel = self._dice.pick(waiting)
            await self._allocate(record, [kernel.kernel_id])

    async def advance(self) -> None:
        """Make one legal move of one kernel."""
        pairs = [(record, kernel) for record in await self._sessions() for kernel in record.kernels]
        moves = [
            (kernel, trigger) for _, kernel in pairs for trigger in KERNEL.legal_in(kernel.status) if trigger in STEPS
        ]
        if moves:
            kernel, trigger = self._dice.pick(moves)
            code = self._dice.roll(2) if trigger is KernelTrigger.EXITED else None
            by = Cause.AGENT_REPORT if trigger in STEPS[2:] else Cause.COORDINATOR
            change = Change("random", by)
            await self._cluster.store.run(
                lambda unit: unit.sessions.move_kernels([KernelMove(kernel, trigger, code)], change)
            )

    async def stop(self, goal: Goal = Goal.STOP) -> None:
        """Stop a session."""
        records = await self._sessions()
        if records:
            await self._cluster.stop(self._dice.pick(records).session_id, goal)

    async def force(self) -> None:
        """Stop a session by force."""
        await self.stop(Goal.FORCE)

    async def free(self) -> None:
        """Free a terminating kernel with a random proof, which may be refused."""
        kernels = [kernel for record in await self._sessions() for kernel in record.kernels]
        ending = [kernel for kernel in kernels if kernel.status == "terminating"]
        if ending:
            kernel, proof = self._dice.pick(ending), self._dice.pick(tuple(FreeProof))
            change = Change("random", Cause.COORDINATOR)
            await self._cluster.store.run(lambda unit: unit.ledger.free([kernel], proof, change))

    async def note(self) -> None:
        """Note a reason for all sessions."""
        names = [SessionId(record.session_id) for record in await self._sessions()]
        change = Change("random", Cause.COORDINATOR, code=self._dice.pick(("no-room", "quota")))
        await self._cluster.store.run(lambda unit: unit.sessions.note(names, change))

    async def _allocate(self, record: SessionRecord, kernels: Sequence[KernelId]) -> None:
        placed = tuple((kernel, AgentId(self._dice.pick(AGENTS))) for kernel in kernels)
        batch = await self._cluster.place_all([Assignment(record.session_id, placed)])
        for error in batch.refused.values():
            raise error

    async def _sessions(self) -> list[SessionRecord]:
        wanted = SessionFilter()
        return list(await self._cluster.store.read(lambda unit: unit.sessions.page(wanted, limit=1000)))
