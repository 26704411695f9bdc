"""Processes that allocate, stop and free on the same few agents, and one that watches them."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Semaphore
from random import Random  # noqa: TID251  # seeded: a race that failed is run again with the same draws

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.sql.allocation.allocator import RepositoryAllocator
from sokovan.adapters.sql.store import SqlStore
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.domain.lifecycle.kernel import FreeProof, KernelStatus
from sokovan.domain.lifecycle.session import Goal
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.records import Change, SessionRecord
from sokovan.domain.slots import ResourceSlot
from sokovan.ports.allocation import AllocationContext, AllocationError, AllocationRefused, Assignment
from sokovan.scheduling.snapshot import KernelWorkload, SessionWorkload
from sokovan.testing.stored_cluster import BY_COORDINATOR, BY_USER
from tests.integration.crowds import store_at, violations

BATCHES = (1, 1, 2, 5, 20, 40)
LET_GO_MAX = 60
# An allocation of one of these meanwhile has locked its agents and waits: few at a time keep the others going.
END_TOGETHER = 10
UNWATCHED_MAX = 4
PAUSE_S = 0.01
# Slots conserved, no overcommit, gangs whole, freed once: quick enough to be asked while others work.
AT_EVERY_COMMIT = ("I1", "I2", "I7", "I20")


@dataclass(frozen=True)
class Entry:
    """A session of the race; a hopeless one fits nowhere and is tried once by each racer."""

    name: str
    kernels: int = 1
    cpu: int = 1000
    hopeless: bool = False


@dataclass(frozen=True)
class Race:
    """The task of one racer: its sessions, some of them shared with other racers."""

    url: str
    seed: int
    agents: tuple[str, ...]
    entries: tuple[Entry, ...]
    # What it may still hold when it has nothing more to do, so that the others find room.
    keep_max: int
    batches: tuple[int, ...] = BATCHES
    # Sessions, of any racer, that this racer asks to end at some time.
    to_stop: tuple[str, ...] = ()


class Unwatched:
    """Batches that have begun since the watcher last looked: few, however slow it is."""

    def __init__(self, left: Semaphore) -> None:
        self._left = left

    @classmethod
    def shared(cls) -> Unwatched:
        """One for all processes of a race."""
        return cls(multiprocessing.get_context("forkserver").Semaphore(UNWATCHED_MAX))

    async def begin(self) -> None:
        """Begin a batch, as soon as the watcher lets it."""
        clock = SystemClock()
        while not self._left.acquire(block=False):
            await clock.sleep(PAUSE_S)

    def look(self) -> bool:
        """Let as many more begin; whether any has begun since the last look."""
        begun = UNWATCHED_MAX - self._left.get_value()
        for _ in range(begun):
            self._left.release()
        return begun > 0


async def race(_line: Connection, task: Race, unwatched: Unwatched) -> Counter[str]:
    """Run one racer to its end; what it did, counted."""
    store = store_at(task.url, pool_size=2, statement_timeout_s=300)
    try:
        return await Racer(store, task, unwatched).run()
    finally:
        await store.close()


class Racer:
    """Allocates what waits, and lets go of its own when there is no room, so that agents stay full."""

    def __init__(self, store: SqlStore, task: Race, unwatched: Unwatched) -> None:
        self._store, self._task, self._unwatched = store, task, unwatched
        self._allocator = RepositoryAllocator(store)
        self._random = Random(task.seed)  # noqa: S311  # draws for a test, no secret among them
        self._waiting = list(task.entries)
        self._to_stop = list(task.to_stop)
        self._holding: list[str] = []
        self._counts: Counter[str] = Counter()

    async def run(self) -> Counter[str]:
        """Until nothing waits for this racer."""
        self._random.shuffle(self._waiting)
        while self._waiting:
            await self._unwatched.begin()
            size = self._random.choice(self._task.batches)
            batch, self._waiting = self._waiting[:size], self._waiting[size:]
            no_room = await self._alone(batch[0]) if len(batch) == 1 else await self._together(batch)
            if no_room:
                await self._let_go(LET_GO_MAX)
            await self._stop_one()
        while len(self._holding) > self._task.keep_max:
            await self._let_go(LET_GO_MAX)
        return self._counts

    async def _together(self, batch: Sequence[Entry]) -> bool:
        outcome = await self._allocator.allocate_batch([self._drawn(one) for one in batch], AllocationContext())
        self._won([result.session_id for result in outcome.allocated])
        return await self._lost(
            {one: outcome.refused[SessionId(one.name)] for one in batch if one.name in outcome.refused}
        )

    async def _alone(self, entry: Entry) -> bool:
        drawn = self._drawn(entry)
        asked = ResourceSlot({"cpu": entry.cpu})
        kernels = [(KernelWorkload(kernel_id, asked), agent) for kernel_id, agent in drawn.kernels]
        workload = SessionWorkload(drawn.session_id, tuple(kernel for kernel, _ in kernels))
        try:
            result = await self._allocator.allocate_cluster(workload, kernels, AllocationContext())
        except AllocationError as error:
            return await self._lost({entry: error})
        self._won([result.session_id])
        return False

    def _drawn(self, entry: Entry) -> Assignment:
        """Random agents: the decision knows nothing of what is free."""
        pairs = [
            (KernelId(f"{entry.name}.{index}"), AgentId(self._random.choice(self._task.agents)))
            for index in range(entry.kernels)
        ]
        return Assignment(SessionId(entry.name), tuple(pairs))

    def _won(self, names: Sequence[SessionId]) -> None:
        self._holding += names
        self._counts["allocated"] += len(names)

    async def _lost(self, refused: dict[Entry, AllocationError]) -> bool:
        """Keep refused entries waiting, with the reason noted; whether there are any."""
        self._counts.update(type(error).__name__ for error in refused.values())
        no_room = [entry for entry, error in refused.items() if isinstance(error, AllocationRefused)]
        self._waiting += [entry for entry in no_room if not entry.hopeless]
        if no_room:
            ids = sorted(SessionId(entry.name) for entry in no_room)
            why = Change(who="racer", by=Cause.COORDINATOR, code=AllocationRefused.code)
            await self._store.run(lambda unit: unit.sessions.note(ids, why))
        return any(not entry.hopeless for entry in no_room)

    async def _let_go(self, some: int) -> None:
        """Stop and free some of what this racer holds."""
        self._random.shuffle(self._holding)
        names, self._holding = self._holding[:some], self._holding[some:]
        for start in range(0, len(names), END_TOGETHER):
            some_names = sorted(names[start : start + END_TOGETHER])
            await self._end(some_names, self._random.choice((Goal.STOP, Goal.FORCE)))

    async def _stop_one(self) -> None:
        if self._to_stop and self._random.random() < len(self._to_stop) / (len(self._waiting) + 1):
            await self._end([self._to_stop.pop()], self._random.choice((Goal.STOP, Goal.FORCE)))

    async def _end(self, names: Sequence[str], goal: Goal) -> None:
        async def want(unit: SqlUnitOfWork) -> list[SessionRecord]:
            return [await unit.sessions.set_goal(SessionId(name), goal, BY_USER) for name in names]

        stopped = await self._store.run_sql(want)
        ending = [
            kernel for session in stopped for kernel in session.kernels if kernel.status is KernelStatus.TERMINATING
        ]
        if ending:
            await self._store.run(lambda unit: unit.ledger.free(ending, FreeProof.NEVER_SENT, BY_COORDINATOR))
        self._counts["ended"] += len(names)


async def watch(line: Connection, url: str, unwatched: Unwatched) -> tuple[int, list[str]]:
    """Look at one state of the database each time batches have begun; until the parent says stop.

    Returns the number of looks, and what was found.
    """
    clock, store = SystemClock(), store_at(url, pool_size=1, statement_timeout_s=300)
    looks, found = 0, list[str]()
    try:
        while not line.poll():
            if not unwatched.look():
                await clock.sleep(PAUSE_S)
            elif not found:
                looks += 1
                found = await violations(store, only=AT_EVERY_COMMIT)
        return looks, found
    finally:
        await store.close()
