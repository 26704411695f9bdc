"""Whether a session may be considered: its gang, its size, its owner's limits.

All objections are collected, not only the first. Rules see the running usage, so
that two sessions of one owner cannot pass one limit together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from sokovan.domain.slots import ResourceSlot
from sokovan.scheduling.engine.jobs import Failure, Job
from sokovan.scheduling.engine.ledger import Entry, Ledger, PendingLines
from sokovan.scheduling.extensions import Extensions
from sokovan.scheduling.snapshot import SessionWorkload
from sokovan.scheduling.trace import Check, Code


class Rules(Protocol):
    """The validators of a cycle, as the engine asks them."""

    passed: tuple[Check, ...]  # the checks of a session that nobody objects to

    def concerned(self, session: SessionWorkload, entry: Entry) -> tuple[Any, ...]:
        """The rules that have something to say of this session."""

    def objections(self, job: Job, request: ResourceSlot) -> list[tuple[Code, Check]]:
        """What they object to the session taking this; nothing if they agree."""


class Admission:
    """Says no to sessions that may not be considered, and why."""

    def __init__(self, rules: Rules, ledger: Ledger, pending: PendingLines, extensions: Extensions) -> None:
        self._rules, self._ledger, self._pending, self._extensions = rules, ledger, pending, extensions
        self._asks_plugins = bool(extensions.at("session_valid"))

    def hopeless(self, job: Job) -> Failure | None:
        """Why a session could not run even if the cluster were empty."""
        if job.single and job.runs[0].shape.ever_total and job.minimum == 1:
            return None
        session = job.session
        if job.minimum > len(session.kernels):
            return Failure(
                Code.NOT_ENOUGH_KERNELS,
                f"{job.minimum} kernels must start together, but the session has {len(session.kernels)}",
            )
        need, held = job.minimum - job.have, 0
        for run in job.runs:
            held += min(len(run.kernels), run.shape.ever_total)
        if held < need:
            short = next(run for run in job.runs if run.shape.ever_total < len(run.kernels))
            possible = sum(min(len(run.kernels), run.shape.possible_total) for run in job.runs)
            return Failure(Code.NODES_DRAINING if possible >= need else Code.NEVER_FITS, shape=short.shape)
        return None

    def objection(self, job: Job) -> Failure | None:
        """What validators and plugins have against the session's next turn."""
        session = job.session
        if self._asks_plugins:
            for answer in self._extensions.ask("session_valid", session):
                if answer is not None:
                    return Failure(Code.REFUSED_BY_PLUGIN, str(answer))
        if job.entry is None:
            job.entry = self._ledger.entry(session.owner)
            job.rules = self._rules.concerned(session, job.entry)
            job.checks = self._rules.passed
        if not job.rules:
            return None
        found = self._rules.objections(job, job.next_slots())
        return _refused(found) if found else None

    def over_limit(self, job: Job, slots: ResourceSlot) -> Failure | None:
        """What the rules say of the very slots that a turn would take."""
        if not job.rules:
            return None
        found = self._rules.objections(job, slots)
        return _refused(found) if found else None

    def count(self, job: Job, slots: Sequence[tuple[ResourceSlot, int]]) -> None:
        """Count what a session takes from now on against its owner."""
        first = job.starts and not job.placed and not job.reserved
        entry = job.entry if job.entry is not None else self._ledger.entry(job.session.owner)
        entry.charge(slots, sessions=int(first))
        if first:
            self._pending.leave(job.session)


def _refused(found: list[tuple[Code, Check]]) -> Failure:
    text = "; ".join(check.detail for _, check in found)
    return Failure(found[0][0], text, checks=tuple(check for _, check in found))
