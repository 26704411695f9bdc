"""The allocator commits scheduling plans to the store.

At commit time it verifies again everything that the decision was based on: the snapshot
may be stale by then.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import ClassVar

from sokovan.domain.errors import SokovanError, quoted
from sokovan.domain.ids import AgentId, KernelId, QueueName, SessionId
from sokovan.domain.records import KernelRecord, SessionRecord
from sokovan.domain.slots import NO_SLOTS, ResourceSlot
from sokovan.ports.storage import Fence
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.selectors.base import AgentSelection
from sokovan.scheduling.selectors.exceptions import InsufficientResourcesError
from sokovan.scheduling.snapshot import KernelWorkload, SessionWorkload


class AllocationError(SokovanError):
    """A session could not be allocated as decided; the next cycle decides again.

    `shortfall` is what was missing, on agent `agent_id` or within an owner's limit.
    """

    code = "allocation"
    hint = "nothing was taken; the session waits for the next scheduling cycle"

    def __init__(
        self, *, session_id: str, problem: str, shortfall: ResourceSlot = NO_SLOTS, agent_id: str | None = None
    ) -> None:
        self.session_id, self.problem, self.shortfall, self.agent_id = session_id, problem, shortfall, agent_id
        super().__init__(f"session {quoted(session_id)}: {problem}")


class AllocationRefused(AllocationError, InsufficientResourcesError):
    """The planned slots, devices or kernel capacity were taken concurrently."""

    code = "slots-taken"
    hint = "nothing was taken; the next scheduling cycle finds another agent, or reports what is missing"


class PortsTaken(AllocationRefused):
    """A port that a kernel needs on its agent is leased, or was until recently."""

    code = "ports-taken"
    hint = "wait for the session that has the port to end, or leave the number out: --port NAME takes any free port"


class SessionNotWaiting(AllocationError):
    """The session was cancelled, ended or allocated since the decision."""

    code = "session-not-waiting"


class AgentChanged(AllocationError):
    """An agent left, enrolled again or no longer fits, since the decision."""

    code = "agent-changed"


class QuotaPassed(AllocationError):
    """An owner would exceed a limit, counting what was committed since the decision."""

    code = "quota-passed"
    hint = "wait for sessions of this owner to end, or have an admin raise the limit"


class DependencyChanged(AllocationError):
    """A dependency of the session has not succeeded."""

    code = "dependency-not-ended"


class IncompleteGang(AllocationError):
    """Fewer kernels than the session's minimum would start."""

    code = "incomplete-gang"


@dataclass(frozen=True, slots=True)
class AllocationContext:
    """The author and the fence of an allocation.

    `topology` and `bookings` are the versions of the topology and the bookings that the
    decision was based on, if any.
    `validators` are those of the decision, None for all: a limit or a dependency that the
    decision did not check is not verified, or it would be decided the same again forever.
    `planned` are the assignments of the sessions that are allocated one by one. `known` are
    sessions as they were read before: one that has not changed since is not read again.
    """

    who: str = "scheduler"
    fence: Fence | None = None
    topology: int | None = None
    bookings: int | None = None
    validators: frozenset[str] | None = None
    planned: Mapping[SessionId, Assignment] = field(default_factory=dict, compare=False)
    known: Mapping[SessionId, SessionRecord] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class Assignment:
    """The planned agents of the kernels of one session.

    `incarnations` are those of the agents in the snapshot of the decision; `hypernode` and
    `group_domains` are where the session and its kernel groups are then. `lender` is the queue
    that lends it what it runs on.
    """

    session_id: SessionId
    kernels: tuple[tuple[KernelId, AgentId], ...]
    incarnations: Mapping[AgentId, int] = field(default_factory=dict)
    hypernode: str | None = None
    group_domains: Mapping[str, str] = field(default_factory=dict)
    lender: QueueName | None = None

    @property
    def has_domain(self) -> bool:
        """Whether the decision was based on the topology."""
        return self.hypernode is not None or bool(self.group_domains)


@dataclass(frozen=True, slots=True)
class AllocationResult:
    """The committed allocation of one session.

    `session` is the session as it is now, if it was known and is not to be read again.
    """

    session_id: SessionId
    scheduled_at: datetime
    kernels: tuple[KernelRecord, ...]
    agent_allocations: Mapping[AgentId, ResourceSlot]
    session: SessionRecord | None = None


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The committed and the rejected allocations of a batch; they are independent."""

    allocated: tuple[AllocationResult, ...]
    refused: Mapping[SessionId, AllocationError]


class SchedulingAllocator(ABC):
    """Commits placement decisions, exactly once.

    A custom allocator subclasses this (or the SQL one), is found by entry point in the
    group `sokovan.allocators`, and is selected by name in the configuration.
    """

    name: ClassVar[str] = ""

    @abstractmethod
    async def allocate_batch(self, assignments: Sequence[Assignment], context: AllocationContext) -> BatchResult:
        """Allocate many sessions, each of them completely or not at all.

        Raises FencedOut, StoreUnavailable; some of the sessions may have been allocated
        then, which the next read of the store shows.
        """

    async def allocate(
        self, session: SessionWorkload, agent_selection: AgentSelection, context: AllocationContext
    ) -> AllocationResult:
        """Allocate every waiting kernel of a session on one agent. Raises AllocationError."""
        planned = context.planned.get(session.session_id)
        waiting = [kernel for kernel in session.kernels if kernel.agent is None]
        if planned is not None:  # a growing session may get some of its kernels only
            waiting = [kernel for kernel in waiting if kernel.kernel_id in dict(planned.kernels)]
        return await self.allocate_cluster(session, [(one, agent_selection.agent_id) for one in waiting], context)

    async def allocate_cluster(
        self,
        session: SessionWorkload,
        kernel_allocations: Sequence[tuple[KernelWorkload, AgentId]],
        context: AllocationContext,
    ) -> AllocationResult:
        """Allocate a gang over many agents, in one step. Raises AllocationError."""
        kernels = tuple((kernel.kernel_id, agent) for kernel, agent in kernel_allocations)
        planned = context.planned.get(session.session_id, Assignment(session.session_id, kernels))
        batch = await self.allocate_batch([replace(planned, kernels=kernels)], replace(context, planned={}))
        for error in batch.refused.values():
            raise error
        return batch.allocated[0]

    async def allocate_planned(
        self,
        assignments: Sequence[Assignment],
        sessions: Mapping[SessionId, SessionWorkload],
        context: AllocationContext,
    ) -> BatchResult:
        """Allocate a batch of a plan.

        A custom allocator that overrides `allocate` or `allocate_cluster` gets each session
        by these; concurrent calls share a transaction.
        """
        own, base = type(self), SchedulingAllocator
        if own.allocate is base.allocate and own.allocate_cluster is base.allocate_cluster:
            return await self.allocate_batch(assignments, context)
        context = replace(context, planned={one.session_id: one for one in assignments})
        every = [self._allocate_one(one, sessions[one.session_id], context) for one in assignments]
        results = await asyncio.gather(*every, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, AllocationError):
                raise result
        refused = {
            one.session_id: result
            for one, result in zip(assignments, results, strict=True)
            if isinstance(result, AllocationError)
        }
        return BatchResult(tuple(one for one in results if isinstance(one, AllocationResult)), refused)

    async def _allocate_one(
        self, planned: Assignment, session: SessionWorkload, context: AllocationContext
    ) -> AllocationResult:
        agents = dict(planned.kernels)
        if len(set(agents.values())) == 1:
            return await self.allocate(session, AgentSelection(next(iter(agents.values()))), context)
        kernels = [(one, agents[one.kernel_id]) for one in session.kernels if one.kernel_id in agents]
        return await self.allocate_cluster(session, kernels, context)


def assignments_of(plan: SchedulingPlan, *, incarnations: Mapping[AgentId, int]) -> list[Assignment]:
    """The placements of a plan by session, in the order of the plan."""
    kernels: dict[SessionId, list[tuple[KernelId, AgentId]]] = {}
    for placement in plan.placements:
        kernels.setdefault(placement.session_id, []).append((placement.kernel_id, placement.agent_id))
    return [
        Assignment(
            session_id=session_id,
            kernels=tuple(pairs),
            incarnations={agent: incarnations[agent] for _, agent in pairs if agent in incarnations},
            hypernode=plan.domains.get(session_id),
            group_domains=plan.group_domains.get(session_id, {}),
            lender=plan.loans.get(session_id),
        )
        for session_id, pairs in kernels.items()
    ]
