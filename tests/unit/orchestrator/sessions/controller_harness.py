"""A controller on a store in memory, with helpers for its tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count
from typing import Any

from sokovan.adapters.inprocess.hints import InProcessHints
from sokovan.adapters.local.ids import SortableIds
from sokovan.adapters.sql.snapshots.source import SqlSnapshots
from sokovan.domain.cluster.queue import Queue
from sokovan.domain.ids import AccessKey, AgentId, QueueName, SessionId
from sokovan.domain.owners.tenancy import Domain, Group, Keypair, Owner, Role, User
from sokovan.domain.problems import InvalidRequest
from sokovan.domain.records import SessionRecord
from sokovan.domain.session_request import Caller, SessionRequest
from sokovan.orchestrator.coordinator import SESSIONS_HINT
from sokovan.orchestrator.sessions.controller import SchedulingController
from sokovan.orchestrator.sessions.explain.plan import DryRuns
from sokovan.orchestrator.sessions.intake.names import name_of
from sokovan.orchestrator.sessions.intake.submissions import Submissions
from sokovan.orchestrator.sessions.verdict_cache import held_sessions
from sokovan.ports.allocation import Assignment
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.ports.repositories.verdicts import StoredVerdict
from sokovan.ports.storage import UnitOfWork
from sokovan.scheduling.codec import verdict_to_json
from sokovan.scheduling.pipeline import schedule
from sokovan.scheduling.profile import profile_of
from sokovan.testing.clock import VirtualClock
from sokovan.testing.stored_cluster import StoredCluster, refusal

ALICE = Caller(Owner(user="alice", group="vision", domain="lab", access_key=AccessKey("AKALICE")), groups=("vision",))
BOB = Caller(Owner(user="bob", group="speech", domain="lab", access_key=AccessKey("AKBOB")), groups=("speech",))
CAROL = Caller(
    Owner(user="carol", group="speech", domain="lab", access_key=AccessKey("AKCAROL")),
    role=Role.DOMAIN_ADMIN,
    groups=("speech",),
)
ROOT = Caller(
    Owner(user="root", group="ops", domain="hq", access_key=AccessKey("AKROOT")), role=Role.ADMIN, groups=("ops",)
)
HELLO = SessionRequest(command=("echo", "hello"))


def session_request(**options: Any) -> SessionRequest:
    """The default request with these options."""
    return replace(HELLO, **options)


class ControllerHarness:
    """A controller with its store, users and groups."""

    def __init__(self, cluster: StoredCluster, clock: VirtualClock, names: Iterator[str]) -> None:
        self.cluster, self.store, self.clock = cluster, cluster.store, clock
        self.hints = InProcessHints(clock)
        self.ids = SortableIds(clock)
        self.controller = SchedulingController(
            self.store,
            Submissions(self.store, ids=self.ids, clock=clock, names=lambda: next(names), secrets=cluster.secrets),
            hints=self.hints,
            dry_runs=DryRuns(SqlSnapshots(self.store)),
        )

    async def submit(self, caller: Caller = ALICE, *, key: str | None = None, **options: Any) -> SessionRecord:
        """Enqueue the default request with these options."""
        return await self.controller.enqueue(session_request(**options), caller, key=key)

    async def problems(self, caller: Caller = ALICE, **options: Any) -> dict[str, str]:
        """Problems of a request by path; AssertionError if there are none."""
        error = await refusal(self.submit(caller, **options), InvalidRequest)
        found: dict[str, str] = {}
        for where, problem in error.problems:
            found[where] = f"{found[where]}; {problem}" if where in found else problem
        return found

    async def stored(self) -> int:
        """The number of stored sessions."""
        return len(await self.store.read(lambda unit: unit.sessions.page(SessionFilter(), limit=1000)))

    async def hinted(self) -> bool:
        """Whether the hint was set; takes it."""
        return await self.hints.take(SESSIONS_HINT)

    async def cycle(self) -> None:
        """Run scheduling and store the verdicts, without allocation."""
        await self.cluster.snapshots.refresh()
        for group in self.cluster.snapshots.scaling_groups():
            snapshot = await self.cluster.snapshots.snapshot(group)
            plan = schedule(snapshot, profile_of(snapshot.scaling_group))
            held = held_sessions(plan.verdicts)
            verdicts = [
                StoredVerdict(one.session_id, one.code, one.summary, verdict_to_json(one), held=one.session_id in held)
                for one in plan.verdicts
            ]

            async def work(unit: UnitOfWork, verdicts: list[StoredVerdict] = verdicts) -> None:
                await unit.verdicts.put(verdicts)

            await self.store.run(work)

    async def place(self, session_id: SessionId, *agents: str) -> SessionRecord:
        """Allocate the kernels of a session, in order, on these agents."""
        session = await self.cluster.session(session_id)
        pairs = tuple((kernel.kernel_id, AgentId(agent)) for kernel, agent in zip(session.kernels, agents, strict=True))
        await self.cluster.place_all([Assignment(session_id, pairs)])
        return await self.cluster.session(session_id)


@asynccontextmanager
async def controller_harness(names: Iterator[str] | None = None) -> AsyncIterator[ControllerHarness]:
    """A controller on a fresh store, with owners and a default queue."""
    clock = VirtualClock()
    async with StoredCluster.open(clock=clock) as cluster:
        await cluster.put(
            Domain("lab"),
            Domain("hq"),
            Group("vision", "lab"),
            Group("speech", "lab"),
            Group("ops", "hq"),
            User("alice", "lab", groups=("vision",)),
            User("bob", "lab", groups=("speech",)),
            User("carol", "lab", groups=("speech",), role=Role.DOMAIN_ADMIN),
            User("root", "hq", groups=("ops",), role=Role.ADMIN),
            *(Keypair(one.owner.access_key, one.owner.user) for one in (ALICE, BOB, CAROL, ROOT)),
            Queue(QueueName("default")),
        )
        yield ControllerHarness(cluster, clock, names or (name_of(number) for number in count()))
