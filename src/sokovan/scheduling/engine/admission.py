"""Whether a session may be considered: its gang, its size, its owner's limits.

All objections are collected, not only the first. Rules see the running usage, so
that two sessions of one owner cannot pass one limit together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

from sokovan.domain.slots import ResourceSlot
from sokovan.scheduling.engine.pending_session import Failure, PendingSession
from sokovan.scheduling.engine.shapes import Shape
from sokovan.scheduling.engine.usage.owner_ledger import Entry, OwnerLedger, PendingLines
from sokovan.scheduling.extensions import Extensions, PluginFailed
from sokovan.scheduling.snapshot import SessionWorkload
from sokovan.scheduling.trace import Check, Code


class Rules(Protocol):
    """The validators of a cycle, as the engine asks them."""

    passed: tuple[Check, ...]  # the checks of a session that nobody objects to

    def concerned(self, session: SessionWorkload, entry: Entry) -> tuple[Any, ...]:
        """The rules that have something to say of this session."""

    def objections(self, job: PendingSession, request: ResourceSlot) -> list[tuple[Code, Check]]:
        """What they object to the session taking this; nothing if they agree."""


class SessionAdmission:
    """Says no to sessions that may not be considered, and why."""

    def __init__(self, rules: Rules, ledger: OwnerLedger, pending: PendingLines, extensions: Extensions) -> None:
        self._rules, self._ledger, self._pending, self._extensions = rules, ledger, pending, extensions
        self._asks_plugins = bool(extensions.at("session_valid"))

    def hopeless(self, job: PendingSession) -> Failure | None:
        """Why a session could not run even if the cluster were empty."""
        if job.single and job.runs[0].shape.ever_total and job.minimum == 1:
            return None
        lacking = _too_few_kernels(job)
        if lacking:
            return Failure(Code.NOT_ENOUGH_KERNELS, lacking)
        waiting: Counter[Shape] = Counter()
        for run in job.runs:
            waiting[run.shape] += len(run.kernels)
        need = job.minimum - job.have
        if sum(min(count, shape.ever_total) for shape, count in waiting.items()) >= need:
            return None
        # Kernels are enough in number (that was asked first), so some shape is short of room.
        short = min(waiting, key=lambda shape: shape.ever_total - waiting[shape])
        return Failure(_why_never(waiting, need), shape=short)

    def objection(self, job: PendingSession) -> Failure | None:
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
        job.barred = None
        if not job.rules:
            return None
        found = self._rules.objections(job, job.next_slots())
        job.objection = _refused(found) if found else None
        return None if found and self._bar(job) else job.objection

    def examine(self, job: PendingSession) -> None:
        """Ask the rules about a session that was never tried, for its verdict."""
        if job.entry is not None:
            return
        try:
            objection = self.objection(job)
        except PluginFailed as failed:
            objection = Failure(Code.PLUGIN_FAILED, checks=(Check("plugin", "no", str(failed)),))
        if objection is not None:
            said = {check.name: check for check in objection.checks}
            job.checks = tuple(said.pop(check.name, check) for check in job.checks) + tuple(said.values())

    def _bar(self, job: PendingSession) -> bool:
        """Keep out of a growing or elastic session the kernels that alone pass a limit; True if some are left."""
        need = job.need()
        if need >= job.waiting:
            return False
        barred = {
            run.shape for run in job.runs if self._rules.objections(job, run.shape.slots * min(need, len(run.kernels)))
        }
        job.barred = frozenset(barred)
        return sum(len(run.kernels) for run in job.runs if run.shape not in barred) >= need

    def over_limit(self, job: PendingSession, slots: ResourceSlot) -> Failure | None:
        """What the rules say of the very slots that a turn would take."""
        if not job.rules:
            return None
        found = self._rules.objections(job, slots)
        return _refused(found) if found else None

    def count(self, job: PendingSession, slots: Sequence[tuple[ResourceSlot, int]]) -> None:
        """Count what a session takes from now on against its owner."""
        first = job.starts and not job.placed and not job.reserved
        entry = job.entry if job.entry is not None else self._ledger.entry(job.session.owner)
        entry.charge(slots, sessions=int(first))
        if first:
            self._pending.leave(job.session)


def _too_few_kernels(job: PendingSession) -> str:
    """Where a session demands more kernels to start together than it has, if so."""
    session = job.session
    there = job.have + job.waiting
    if job.minimum > there:
        return f"{job.minimum} kernels must start together, but the session has {there}"
    sizes = Counter(kernel.group for kernel in session.kernels)
    for group, least in session.group_minimums.items():
        if least > sizes[group]:
            return f"{least} kernels of group {group!r} must start together, but there are {sizes[group]}"
    for number, partition in enumerate(session.partitions):
        parts = [index for index, part in enumerate(job.parts) if part.partition == number]
        whole = sum(1 for index in parts if job.part_size(index) >= partition.size)
        if whole < partition.min_groups:
            return f"{partition.min_groups} groups of {partition.size} by {partition.by} are needed, there are {whole}"
    small = {index for index, part in enumerate(job.parts) if job.part_size(index) < part.size}
    stuck = sum(len(run.kernels) for run in job.runs if run.part in small)
    if job.minimum > there - stuck:
        return f"{job.minimum} kernels must start together, but {stuck} of {there} are in groups that are too small"
    return ""


def _why_never(waiting: Counter[Shape], need: int) -> Code:
    """Whether nothing could ever hold it, or only agents that take no work, or those of another shard."""
    if sum(min(count, shape.possible_total) for shape, count in waiting.items()) < need:
        return Code.NEVER_FITS
    if sum(min(count, shape.alive_total) for shape, count in waiting.items()) < need:
        return Code.NODES_DRAINING
    return Code.OTHER_SHARD


def _refused(found: list[tuple[Code, Check]]) -> Failure:
    text = "; ".join(check.detail for _, check in found)
    return Failure(found[0][0], text, checks=tuple(check for _, check in found))
