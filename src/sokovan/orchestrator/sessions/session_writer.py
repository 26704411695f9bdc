"""Writes the moves that handlers decide, in batches.

A plan lists the triggers of a session's kernels, step by step. Plans of many sessions
become few statements; a session that changed concurrently is skipped and reread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TypeVar

from sokovan.domain.errors import StaleVersion
from sokovan.domain.events import VerdictsChanged
from sokovan.domain.ids import KernelId, SessionId
from sokovan.domain.lifecycle.eviction import Checkpoint
from sokovan.domain.lifecycle.kernel import FollowUp, FreeProof, KernelTrigger
from sokovan.domain.lifecycle.session import Goal
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.owners.turns import Turns, slice_of
from sokovan.domain.records import DETAIL_MAX, Change, KernelMove, KernelRecord, SessionRecord
from sokovan.orchestrator.batch_writer import BatchWriter, WriteResult
from sokovan.orchestrator.quarantine import Quarantine
from sokovan.orchestrator.sessions.session_cache import SessionCache
from sokovan.ports.repositories.ledger import OwnEnds, UnprovenFree
from sokovan.ports.repositories.sessions import Taker
from sokovan.ports.storage import UnitOfWork

WHO = "coordinator"
# Triggers that may reach the kernels of a session one after the other: what the session needs to go on was decided on
# all of them. A failure, an eviction or a withdrawal is of all kernels at once.
DIVISIBLE = frozenset(
    {
        KernelTrigger.PREPARATION_STARTED,
        KernelTrigger.PULL_STARTED,
        KernelTrigger.IMAGE_READY,
        KernelTrigger.CREATION_REQUESTED,
        KernelTrigger.STARTED,
        KernelTrigger.EXITED,
        KernelTrigger.STOP_REQUESTED,
    }
)

_T = TypeVar("_T")


def by_coordinator(code: str = "", detail: str = "") -> Change:
    """A change decided by the coordinator."""
    return Change(WHO, Cause.COORDINATOR, code, detail[:DETAIL_MAX])


def by_report(code: str = "", detail: str = "") -> Change:
    """A change reported by an agent."""
    return Change(WHO, Cause.AGENT_REPORT, code, detail[:DETAIL_MAX])


@dataclass(frozen=True, slots=True)
class SessionStep:
    """Kernels of one session with the same trigger and reason.

    With `taker`, for which the session was evicted, only if that has not changed since it was read.
    """

    trigger: KernelTrigger
    change: Change
    kernels: tuple[KernelId, ...]
    exit_codes: Mapping[KernelId, int | None] = field(default_factory=dict)
    # Kernels that their agents could not start, and for how long to avoid these agents.
    failed_starts_ms: Mapping[KernelId, int] = field(default_factory=dict)
    # Kernels that end alone, while the session runs.
    follow_ups: Mapping[KernelId, FollowUp] = field(default_factory=dict)
    taker: Taker | None = None

    def moves(self, session: SessionRecord) -> list[KernelMove]:
        """The moves of the step, on the current kernels."""
        wanted = frozenset(self.kernels)
        return [
            KernelMove(
                kernel,
                self.trigger,
                self.exit_codes.get(kernel.kernel_id),
                self.failed_starts_ms.get(kernel.kernel_id),
                self.follow_ups.get(kernel.kernel_id),
            )
            for kernel in session.kernels
            if kernel.kernel_id in wanted
        ]


def first_slice(steps: Sequence[SessionStep], limit: int) -> tuple[SessionStep, ...]:
    """The steps of the first `limit` kernels; all if a step cannot be divided."""
    if any(step.trigger not in DIVISIBLE for step in steps):
        return tuple(steps)
    kernels = dict.fromkeys(kernel for step in steps for kernel in step.kernels)
    if len(kernels) <= limit:
        return tuple(steps)
    first = frozenset(islice(kernels, limit))
    sliced = [replace(step, kernels=tuple([one for one in step.kernels if one in first])) for step in steps]
    return tuple(step for step in sliced if step.kernels)


@dataclass(frozen=True, slots=True)
class SessionMoves:
    """The steps of a session in one transaction; the first one determines its cause."""

    session: SessionRecord
    steps: tuple[SessionStep, ...]

    @property
    def taker(self) -> Taker | None:
        """The taker that the steps depend on."""
        return next((step.taker for step in self.steps if step.taker is not None), None)


@dataclass(frozen=True, slots=True)
class Freeing:
    """Kernels of one session that are gone, with the proof and their last checkpoints.

    `exits` are the codes of those that had ended by themselves before the notice of an
    eviction. With those that are `completed` the session has ended before it.
    """

    session_id: SessionId
    kernels: tuple[KernelRecord, ...]
    proof: FreeProof
    checkpoints: Mapping[KernelId, Checkpoint] = field(default_factory=dict)
    exits: Mapping[KernelId, int] = field(default_factory=dict)
    completed: tuple[KernelId, ...] = ()


def kernels_in(session: SessionRecord) -> int:
    """The number of kernels of a session."""
    return len(session.kernels)


def user_of(session: SessionRecord) -> str:
    """The user whose turn a session takes."""
    return session.spec.owner.user


def session_turns() -> Turns[SessionRecord]:
    """Turns of the users of sessions, by the number of kernels."""
    return Turns(user_of=user_of, size_of=kernels_in)


class SessionWriter:
    """Writes decisions of handlers and updates the session cache.

    `left` are the sessions of the last decision that move in part, or later.
    """

    def __init__(self, batches: BatchWriter, sessions: SessionCache, quarantine: Quarantine) -> None:
        self._batches, self._sessions, self._quarantine = batches, sessions, quarantine
        self._unfinished = sessions.unfinished
        self._turns: dict[tuple[str, bool], Turns[SessionRecord]] = {}
        self.left: list[SessionId] = []

    def decide(
        self,
        handler: str,
        sessions: Iterable[SessionRecord],
        decide: Callable[[SessionRecord], Sequence[SessionStep]],
        *,
        all_at_once: bool = False,
    ) -> list[SessionMoves]:
        """The plans for these sessions; one whose decision raises is quarantined.

        Of all small sessions together one slice is planned, and one of all large ones: users
        take turns, the oldest of each first. A small session is never divided.
        """
        plans: list[SessionMoves] = []
        self.left = []

        def spend(session: SessionRecord, limit: int) -> int:
            steps = whole = self._steps(handler, session, decide)
            if session.session_id in self._sessions.bulk.large:
                steps = first_slice(whole, limit)
                self.left += [session.session_id] if steps != whole else []
            if steps:
                plans.append(SessionMoves(session, steps))
            return len({kernel for step in steps for kernel in step.kernels})

        by_size: dict[bool, list[SessionRecord]] = {False: [], True: []}
        for session in sessions:
            if self._quarantine.admits(session.session_id):
                by_size[session.session_id in self._sessions.bulk.large].append(session)
        for is_large, some in by_size.items():
            kernels = sum(map(kernels_in, some))
            turns = self._turns.setdefault((handler, is_large), session_turns())
            later = turns.take(
                some, budget=kernels if all_at_once else slice_of(kernels, are_large=is_large), spend=spend
            )
            self.left += [session.session_id for session in later]
        self._unfinished.update(dict.fromkeys(self.left))
        return plans

    def _steps(
        self, handler: str, session: SessionRecord, decide: Callable[[SessionRecord], Sequence[SessionStep]]
    ) -> tuple[SessionStep, ...]:
        try:
            return tuple([step for step in decide(session) if step.kernels])
        except Exception as error:  # noqa: BLE001  # one session must not stop the others
            self._quarantine.failed(session.session_id, handler=handler, error=error)
            return ()

    async def move(self, handler: str, plans: Sequence[SessionMoves]) -> list[SessionRecord]:
        """Write the plans; returns the sessions that moved."""
        if not plans:
            return []
        written = await self._batches.write(plans, _take_steps)
        self._update_cache(handler, written, lambda plan: plan.session.session_id)
        known = {record.session_id for record in written.results}
        left = [plan for plan in plans if plan.session.session_id not in known]
        self._sessions.mark_stale(plan.session.session_id for plan in left)
        self._sessions.mark_stale(plan.taker.session_id for plan in left if isinstance(plan.taker, SessionRecord))
        return written.results

    async def free(self, handler: str, freeings: Sequence[Freeing], change: Change) -> list[SessionRecord]:
        """Free the slots of kernels; returns their sessions.

        A proof that no longer holds is no failure: the next cycle decides again.
        """
        if not freeings:
            return []

        async def work(unit: UnitOfWork, batch: Sequence[Freeing]) -> Sequence[SessionRecord]:
            ids = dict.fromkeys(freeing.session_id for freeing in batch)
            known = {one: record for one in ids if (record := self._sessions.get(one)) is not None}
            for proof in dict.fromkeys(one.proof for one in batch):
                kernels = [kernel for one in batch if one.proof is proof for kernel in one.kernels]
                saved = {kernel: at for one in batch for kernel, at in one.checkpoints.items()}
                ends = OwnEnds(
                    {kernel: code for one in batch for kernel, code in one.exits.items()},
                    frozenset(kernel for one in batch for kernel in one.completed),
                )
                freed = await unit.ledger.free(kernels, proof, change, known=known, checkpoints=saved, ends=ends)
                known |= {record.session_id: record for record in freed}
            return [known[one] for one in ids]

        written = await self._batches.write(freeings, work)
        self._update_cache(handler, written, lambda freeing: freeing.session_id)
        return written.results

    async def set_goal(
        self, handler: str, session_ids: Collection[SessionId], goal: Goal, change: Change
    ) -> list[SessionRecord]:
        """Raise the goals of sessions."""
        if not session_ids:
            return []

        async def work(unit: UnitOfWork, batch: Sequence[SessionId]) -> Sequence[SessionRecord]:
            return [await unit.sessions.set_goal(one, goal, change) for one in batch]

        written = await self._batches.write(list(session_ids), work)
        self._update_cache(handler, written, lambda one: one)
        return written.results

    async def note(self, session_ids: Collection[SessionId], change: Change, *, emit: bool = False) -> None:
        """Add a note to the history of sessions; `emit` also publishes an event."""
        if not session_ids:
            return

        async def work(unit: UnitOfWork, batch: Sequence[SessionId]) -> Sequence[None]:
            await unit.sessions.note(batch, change)
            if emit:
                await unit.emit([VerdictsChanged(at_ms=unit.now_ms, session_ids=tuple(batch), code=change.code)])
            return ()

        await self._batches.write(list(session_ids), work)

    def _update_cache(
        self, handler: str, written: WriteResult[_T, SessionRecord], session_of: Callable[[_T], SessionId]
    ) -> None:
        for record in written.results:
            self._sessions.put(record)
            self._quarantine.recovered(record.session_id)
        for item, error in written.failures:
            self._sessions.mark_stale([session_of(item)])
            if not isinstance(error, UnprovenFree | StaleVersion):
                self._quarantine.failed(session_of(item), handler=handler, error=error)


async def _take_steps(unit: UnitOfWork, plans: Sequence[SessionMoves]) -> Sequence[SessionRecord]:
    """Write the steps of all plans; sessions that changed concurrently are skipped, or whose takers did."""
    steps: list[tuple[Change, list[KernelMove]]] = []
    for number in range(max(len(plan.steps) for plan in plans)):
        moves: dict[Change, list[KernelMove]] = {}
        for plan in plans:
            if number < len(plan.steps):
                step = plan.steps[number]
                moves.setdefault(step.change, []).extend(step.moves(plan.session))
        steps += moves.items()
    return await unit.sessions.move_in_steps(
        steps,
        known={plan.session.session_id: plan.session for plan in plans},
        takers={plan.session.session_id: plan.taker for plan in plans if plan.taker is not None},
    )
