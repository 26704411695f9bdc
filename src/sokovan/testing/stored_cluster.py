"""A cluster in a real store, with convenience methods for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.local.ids import SortableIds
from sokovan.adapters.local.secret_box import AesSecretBox, SecretKey
from sokovan.adapters.sql.allocation.allocator import RepositoryAllocator
from sokovan.adapters.sql.database import Database, DatabaseSettings
from sokovan.adapters.sql.leases import SqlLeases
from sokovan.adapters.sql.snapshots.source import SqlSnapshots
from sokovan.adapters.sql.store import SqlStore, TransactionRetry
from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.errors import SokovanError
from sokovan.domain.ids import AgentId, KernelId, ScalingGroupName, SessionId
from sokovan.domain.lifecycle.kernel import FreeProof, KernelTrigger
from sokovan.domain.lifecycle.session import Goal
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.records import AgentRecord, Change, Device, KernelMove, SessionRecord
from sokovan.domain.session import KernelSpec, SessionSpec
from sokovan.domain.slots import ResourceSlot
from sokovan.ports.allocation import AllocationContext, Assignment, BatchResult
from sokovan.ports.environment import Clock
from sokovan.ports.repositories.catalog import CatalogItem
from sokovan.ports.repositories.sessions import NewSession, RequestKey
from sokovan.ports.storage import Store
from sokovan.testing.clock import Elapse, VirtualClock
from sokovan.testing.known_schema import bring_to_newest

E = TypeVar("E", bound=Exception)

BY_USER = Change(who="user", by=Cause.CONTROLLER)
BY_COORDINATOR = Change(who="coordinator", by=Cause.COORDINATOR)
BY_AGENT = Change(who="agent", by=Cause.AGENT_REPORT)
DEFAULT_GROUP = ScalingGroupName("default")
CAPACITY = {"cpu": 8000, "mem": 32 << 30, "cuda.device": 4}
# The moves of a kernel from its allocation to RUNNING.
_TO_RUNNING = (
    (KernelTrigger.IMAGE_READY, BY_COORDINATOR),
    (KernelTrigger.CREATION_REQUESTED, BY_COORDINATOR),
    (KernelTrigger.STARTED, BY_AGENT),
)


class StoredCluster:
    """One store with a scaling group `default`; tests refer to objects by name.

    `elapse` lets the store's time pass, by advancing a virtual clock or by sleeping.
    """

    def __init__(self, store: SqlStore) -> None:
        self.store = store
        clock = store.database.clock
        self.elapse: Elapse = clock.advance if isinstance(clock, VirtualClock) else clock.sleep
        self._ids = SortableIds(clock)
        self.allocator = RepositoryAllocator(store)
        self.leases = SqlLeases(store)
        self.snapshots = SqlSnapshots(store)
        keys = [SecretKey.new()]
        self.secrets = AesSecretBox(lambda: keys)

    @classmethod
    @asynccontextmanager
    async def open(
        cls, url: str = "sqlite://", *, clock: Clock | None = None, retry: TransactionRetry | None = None
    ) -> AsyncIterator[StoredCluster]:
        """A cluster on a new or existing database, upgraded to the newest schema."""
        time = clock or SystemClock()
        database = Database(DatabaseSettings(url), clock=time)
        try:
            await bring_to_newest(database)
            cluster = cls(SqlStore(database, ids=SortableIds(time), retry=retry))
            await cluster.store.run(lambda unit: unit.catalog.put(ScalingGroup(name=DEFAULT_GROUP)))
            yield cluster
        finally:
            await database.close()

    def new(self, kind: str) -> str:
        """A unique name, so that many tests can share a database."""
        return self._ids.new(kind)

    async def put(self, *items: CatalogItem) -> None:
        """Write catalog items."""
        await self.store.run(lambda unit: unit.catalog.put(*items))

    async def agent(self, name: str, *, devices: bool = True, **options: Any) -> AgentRecord:
        """Enrol an agent with the usual capacity or `slots`; options are AgentInfo's."""
        slots: Mapping[str, int] = options.pop("slots", CAPACITY)
        cards = devices_of(slots) if devices else []
        info = AgentInfo(AgentId(name), ResourceSlot(slots), **options)
        return await self.store.run(lambda unit: unit.fleet.enrol(info, BY_AGENT, devices=cards))

    async def submit(
        self,
        name: str,
        /,
        *,
        kernels: int = 1,
        slots: Mapping[str, int] | None = None,
        request: RequestKey | None = None,
        **options: Any,
    ) -> SessionRecord:
        """Enqueue a session of equal kernels; other options are SessionSpec's."""
        spec = session_spec(name, kernels=kernels, slots=slots, **options)
        return await self.store.run(lambda unit: unit.sessions.enqueue(spec, BY_USER, request=request))

    async def place(self, name: str, *agents: str, context: AllocationContext | None = None) -> BatchResult:
        """Allocate the waiting kernels of a session, in order, on these agents."""
        return await self.place_all([assignment(name, *agents)], context=context)

    async def place_all(
        self, assignments: Sequence[Assignment], *, context: AllocationContext | None = None
    ) -> BatchResult:
        """Allocate many sessions in one batch."""
        return await self.allocator.allocate_batch(assignments, context or AllocationContext())

    async def session(self, name: str) -> SessionRecord:
        """The current record of a session."""
        return await self.store.read(lambda unit: unit.sessions.get(SessionId(name)))

    async def move(
        self, name: str, trigger: KernelTrigger, change: Change = BY_COORDINATOR, **options: Any
    ) -> SessionRecord:
        """Move every kernel of a session that can take this trigger."""
        session = await self.session(name)
        moves = [KernelMove(kernel, trigger, **options) for kernel in session.kernels if kernel.agent_id is not None]
        return await self.store.run(lambda unit: unit.sessions.move_kernels(moves, change))

    async def start(self, name: str) -> SessionRecord:
        """Bring an allocated session to RUNNING."""
        for trigger, change in _TO_RUNNING:
            await self.move(name, trigger, change)
        return await self.session(name)

    async def stop(self, name: str, goal: Goal = Goal.STOP) -> SessionRecord:
        """Set the goal of a session to an end."""
        return await self.store.run(lambda unit: unit.sessions.set_goal(SessionId(name), goal, BY_USER))

    async def free(self, name: str, proof: FreeProof) -> SessionRecord:
        """Free the slots of a session's kernels."""
        session = await self.session(name)
        placed = [kernel for kernel in session.kernels if kernel.agent_id is not None]
        await self.store.run(lambda unit: unit.ledger.free(placed, proof, BY_COORDINATOR))
        return await self.session(name)


def devices_of(slots: Mapping[str, int]) -> list[Device]:
    """A device for each unit of `cuda.device`."""
    return [Device(f"gpu{index}", "cuda.device") for index in range(slots.get("cuda.device", 0))]


def session_spec(
    name: str, /, *, kernels: int = 1, slots: Mapping[str, int] | None = None, **options: Any
) -> SessionSpec:
    """A session `name` of equal kernels `name.0`, `name.1`, ..."""
    requested = ResourceSlot({"cpu": 1000, "mem": 1 << 30} if slots is None else slots)
    specs = tuple(KernelSpec(KernelId(f"{name}.{index}"), requested) for index in range(kernels))
    return SessionSpec(SessionId(name), specs, **options)


def assignment(name: str, *agents: str, **options: Any) -> Assignment:
    """The kernels of a session in order, one per agent named."""
    pairs = tuple((KernelId(f"{name}.{index}"), AgentId(agent)) for index, agent in enumerate(agents))
    return Assignment(SessionId(name), pairs, **options)


async def submit_all(store: Store, specs: Sequence[SessionSpec]) -> None:
    """Enqueue many sessions in one transaction. Raises the first refusal."""
    wanted = [NewSession(spec, BY_USER) for spec in specs]
    for outcome in await store.run(lambda unit: unit.sessions.enqueue_many(wanted)):
        if isinstance(outcome, SokovanError):
            raise outcome


async def release(store: Store, name: str, *gates: str) -> SessionRecord:
    """Open gates of a session as its user."""
    return await store.run(lambda unit: unit.sessions.release(SessionId(name), gates, BY_USER))


async def refusal(work: Awaitable[object], kind: type[E]) -> E:
    """The error that `work` raises; AssertionError if it raises none of this kind."""
    try:
        await work
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was not raised")
