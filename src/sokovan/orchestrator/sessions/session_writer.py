"""Moves of sessions, decided by handlers and written in batches.

A plan says which kernels of one session take which trigger, step by step. Plans of
many sessions become few statements; a session that changed meanwhile is left out
and looked at again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from sokovan.domain.errors import StaleVersion
from sokovan.domain.events import VerdictsChanged
from sokovan.domain.ids import KernelId, SessionId
from sokovan.domain.lifecycle.kernel import FreeProof, KernelTrigger
from sokovan.domain.lifecycle.session import Goal
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.records import DETAIL_MAX, Change, KernelMove, KernelRecord, SessionRecord
from sokovan.orchestrator.batch_writer import BatchWriter, WriteResult
from sokovan.orchestrator.quarantine import Quarantine
from sokovan.orchestrator.sessions.session_cache import SessionCache
from sokovan.ports.repositories.ledger import UnprovenFree
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.ports.storage import UnitOfWork

WHO = "coordinator"

_T = TypeVar("_T")


def by_coordinator(code: str = "", detail: str = "") -> Change:
    """Something that the internal flow does."""
    return Change(WHO, Cause.COORDINATOR, code, detail[:DETAIL_MAX])


def by_report(code: str = "", detail: str = "") -> Change:
    """Something that an agent has seen."""
    return Change(WHO, Cause.AGENT_REPORT, code, detail[:DETAIL_MAX])


@dataclass(frozen=True, slots=True)
class SessionStep:
    """Kernels of one session that take the same trigger for the same reason."""

    trigger: KernelTrigger
    change: Change
    kernels: tuple[KernelId, ...]
    exit_codes: Mapping[KernelId, int | None] = field(default_factory=dict)

    def moves(self, session: SessionRecord) -> list[KernelMove]:
        """The step on the kernels as they are now."""
        return [
            KernelMove(kernel, self.trigger, self.exit_codes.get(kernel.kernel_id))
            for kernel in session.kernels
            if kernel.kernel_id in self.kernels
        ]


@dataclass(frozen=True, slots=True)
class SessionMoves:
    """The steps that a session takes in one transaction; the first tells its end."""

    session: SessionRecord
    steps: tuple[SessionStep, ...]


@dataclass(frozen=True, slots=True)
class Freeing:
    """Kernels of one session that are over, and how we know."""

    session_id: SessionId
    kernels: tuple[KernelRecord, ...]
    proof: FreeProof


class SessionWriter:
    """Writes what handlers decide, and keeps the copy of sessions up to date."""

    def __init__(self, batches: BatchWriter, live: SessionCache, quarantine: Quarantine) -> None:
        self._batches, self._live, self._quarantine = batches, live, quarantine

    def decide(
        self, handler: str, sessions: Iterable[SessionRecord], decide: Callable[[SessionRecord], Sequence[SessionStep]]
    ) -> list[SessionMoves]:
        """The plans for these sessions; one whose decision fails is set aside, alone."""
        plans: list[SessionMoves] = []
        for session in sessions:
            if not self._quarantine.admits(session.session_id):
                continue
            try:
                steps = tuple(step for step in decide(session) if step.kernels)
            except Exception as error:  # noqa: BLE001  # one session must not stop the others
                self._quarantine.failed(session.session_id, handler=handler, error=error)
                continue
            if steps:
                plans.append(SessionMoves(session, steps))
        return plans

    async def move(self, handler: str, plans: Sequence[SessionMoves]) -> list[SessionRecord]:
        """Take the steps; the sessions that moved, as they are now."""
        if not plans:
            return []
        written = await self._batches.write(plans, _take_steps)
        self._learn(handler, written, lambda plan: plan.session.session_id)
        known = {record.session_id for record in written.results}
        self._live.doubt(plan.session.session_id for plan in plans if plan.session.session_id not in known)
        return written.results

    async def free(self, handler: str, freeings: Sequence[Freeing], change: Change) -> list[SessionRecord]:
        """Free what these kernels hold; their sessions as they are now.

        A ground that no longer holds is no failure: the next look decides again.
        """
        if not freeings:
            return []

        async def work(unit: UnitOfWork, batch: Sequence[Freeing]) -> Sequence[SessionRecord]:
            for proof in dict.fromkeys(one.proof for one in batch):
                kernels = [kernel for one in batch if one.proof is proof for kernel in one.kernels]
                await unit.ledger.free(kernels, proof, change)
            return await _read(unit, [one.session_id for one in batch])

        written = await self._batches.write(freeings, work)
        self._learn(handler, written, lambda freeing: freeing.session_id)
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
        self._learn(handler, written, lambda one: one)
        return written.results

    async def note(self, session_ids: Collection[SessionId], change: Change, *, aloud: bool = False) -> None:
        """Say why sessions stay where they are; `aloud` to those who watch them, too."""
        if not session_ids:
            return

        async def work(unit: UnitOfWork, batch: Sequence[SessionId]) -> Sequence[None]:
            await unit.sessions.note(batch, change)
            if aloud:
                await unit.emit([VerdictsChanged(at_ms=unit.now_ms, session_ids=tuple(batch), code=change.code)])
            return ()

        await self._batches.write(list(session_ids), work)

    def _learn(
        self, handler: str, written: WriteResult[_T, SessionRecord], session_of: Callable[[_T], SessionId]
    ) -> None:
        for record in written.results:
            self._live.put(record)
            self._quarantine.recovered(record.session_id)
        for item, error in written.failures:
            self._live.doubt([session_of(item)])
            if not isinstance(error, UnprovenFree | StaleVersion):
                self._quarantine.failed(session_of(item), handler=handler, error=error)


async def _take_steps(unit: UnitOfWork, plans: Sequence[SessionMoves]) -> Sequence[SessionRecord]:
    now = {plan.session.session_id: plan.session for plan in plans}
    for number in range(max(len(plan.steps) for plan in plans)):
        moves: dict[Change, list[KernelMove]] = {}
        for plan in plans:
            session = now.get(plan.session.session_id)
            if session is not None and number < len(plan.steps):
                step = plan.steps[number]
                moves.setdefault(step.change, []).extend(step.moves(session))
        asked = {move.kernel.session_id for group in moves.values() for move in group}
        done = [record for change, group in moves.items() for record in await unit.sessions.move_many(group, change)]
        # Whoever was changed by somebody else takes no further step.
        now = {one: session for one, session in now.items() if one not in asked}
        now |= {record.session_id: record for record in done}
    return list(now.values())


async def _read(unit: UnitOfWork, ids: Sequence[SessionId]) -> Sequence[SessionRecord]:
    wanted = list(dict.fromkeys(ids))
    return await unit.sessions.page(SessionFilter(ids=wanted), limit=len(wanted))
