"""Scenes for actors whose statements are interleaved: each order is played in a fresh one."""

from collections.abc import Sequence

from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.ids import AgentId, SessionId
from sokovan.domain.lifecycle.session import Goal
from sokovan.domain.records import KernelRecord, SessionRecord
from sokovan.domain.slots import ResourceSlot
from sokovan.ports.repositories.sessions import NewSession
from sokovan.testing.stored_cluster import BY_AGENT, BY_USER, StoredCluster, assignment, session_spec

ROOM_FOR_ONE = ResourceSlot({"cpu": 1000})
# Scenes are built in one unit of work, this many at a time.
TOGETHER = 50


class Stage:
    """A scene of its own for each order: an agent with room for one kernel, and its sessions."""

    def __init__(self, cluster: StoredCluster, sessions: str, *, ending: bool = False) -> None:
        self.cluster, self._sessions, self._ending = cluster, sessions, ending
        self.kernels: dict[str, Sequence[KernelRecord]] = {}
        self._built = 0

    async def scene(self, number: int) -> str:
        """The name of an unused scene."""
        if number >= self._built:
            names = [f"n{one}" for one in range(self._built, self._built + TOGETHER)]
            await self.cluster.store.run_sql(lambda unit: self._build(unit, names))
            if self._ending:
                await self._bring_to_the_end(names)
            self._built += TOGETHER
        return f"n{number}"

    async def _build(self, unit: SqlUnitOfWork, names: Sequence[str]) -> None:
        for name in names:
            await unit.fleet.enrol(AgentInfo(AgentId(name), ROOM_FOR_ONE), BY_AGENT)
        specs = [session_spec(f"{name}{letter}", slots=ROOM_FOR_ONE) for name in names for letter in self._sessions]
        await unit.sessions.enqueue_many([NewSession(spec, BY_USER) for spec in specs])

    async def _bring_to_the_end(self, names: Sequence[str]) -> None:
        """Allocate every session and ask it to end, so that only its slots are left to be freed."""
        ids = [SessionId(f"{name}{letter}") for name in names for letter in self._sessions]
        await self.cluster.place_all([assignment(one, one.rstrip("xy")) for one in ids])

        async def want(unit: SqlUnitOfWork) -> list[SessionRecord]:
            return [await unit.sessions.set_goal(one, Goal.STOP, BY_USER) for one in ids]

        for record in await self.cluster.store.run_sql(want):
            self.kernels[record.session_id] = record.kernels
