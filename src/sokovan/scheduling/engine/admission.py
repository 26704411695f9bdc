"""SessionAdmission: decides whether a session may be considered in this cycle.

Takes a PendingSession. Gives a PendingReason, or None if it may be tried: its gang
has enough kernels, the cluster could hold it, and no validator or plugin objects.
All objections are collected, not only the first. Validators see the running usage,
so that two sessions of one owner cannot exceed one limit together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

from sokovan.domain.slots import ResourceSlot
from sokovan.scheduling.engine.pending_session import PendingReason, PendingSession
from sokovan.scheduling.engine.shapes import Shape
from sokovan.scheduling.engine.usage.array_usage import ArrayUsage
from sokovan.scheduling.engine.usage.owner_backlog import OwnerBacklogs
from sokovan.scheduling.engine.usage.owner_ledger import LedgerEntry, OwnerLedger
from sokovan.scheduling.extensions import Extensions, PluginFailed
from sokovan.scheduling.snapshot import SessionWorkload
from sokovan.scheduling.trace import Check, Code


class Rules(Protocol):
    """The validators of a cycle, as the engine calls them."""

    passed: tuple[Check, ...]  # the checks of a session without objections

    def applicable(self, session: SessionWorkload, entry: LedgerEntry) -> tuple[Any, ...]:
        """The rules that apply to this session."""

    def objections(self, pending: PendingSession, request: ResourceSlot) -> list[tuple[Code, Check]]:
        """The objections to the session taking these slots."""


class SessionAdmission:
    """Refuses sessions that may not be considered, with the reason."""

    def __init__(
        self, rules: Rules, ledger: OwnerLedger, backlogs: OwnerBacklogs, extensions: Extensions, *, arrays: ArrayUsage
    ) -> None:
        self._rules, self._ledger, self._backlogs, self._extensions = rules, ledger, backlogs, extensions
        self._arrays = arrays
        self._has_plugins = bool(extensions.at("session_valid"))

    def unschedulable(self, pending: PendingSession) -> PendingReason | None:
        """Why a session could not run even if the cluster were empty."""
        if pending.single and pending.batches[0].shape.ever_total and pending.minimum == 1:
            return None
        problem = _too_few_kernels(pending)
        if problem:
            return PendingReason(Code.NOT_ENOUGH_KERNELS, problem)
        waiting = _kernels_by_shape(pending)
        need = pending.minimum - pending.have
        if sum(min(count, shape.ever_total) for shape, count in waiting.items()) >= need:
            return None
        # There are enough kernels (checked above), so some shape lacks room.
        short = min(waiting, key=lambda shape: shape.ever_total - waiting[shape])
        return PendingReason(_unschedulable_code(waiting, need), shape=short)

    def objection(self, pending: PendingSession) -> PendingReason | None:
        """The objections of validators and plugins to the session's next attempt."""
        session = pending.session
        if self._has_plugins:
            for answer in self._extensions.call_all("session_valid", session):
                if answer is not None:
                    return PendingReason(Code.REFUSED_BY_PLUGIN, str(answer))
        if pending.ledger_entry is None:
            pending.ledger_entry = self._ledger.entry(session.owner)
            pending.rules = self._rules.applicable(session, pending.ledger_entry)
            pending.checks = self._rules.passed
        pending.excluded_shapes = None
        if not pending.rules:
            return None
        found = self._rules.objections(pending, pending.next_slots())
        pending.limit_reason = _reason_of(found) if found else None
        return None if found and self._exclude_shapes(pending) else pending.limit_reason

    def examine(self, pending: PendingSession) -> None:
        """Run the validators on a session that was never tried, for its verdict."""
        if pending.ledger_entry is not None:
            return
        try:
            objection = self.objection(pending)
        except PluginFailed as failed:
            objection = PendingReason(Code.PLUGIN_FAILED, checks=(Check("plugin", "no", str(failed)),))
        if objection is not None:
            failed_checks = {check.name: check for check in objection.checks}
            checks = tuple(failed_checks.pop(check.name, check) for check in pending.checks)
            pending.checks = checks + tuple(failed_checks.values())

    def _exclude_shapes(self, pending: PendingSession) -> bool:
        """Exclude the shapes of an elastic session that alone exceed a limit; True if enough kernels are left."""
        need = pending.need()
        if need >= pending.waiting:
            return False
        waiting = _kernels_by_shape(pending)
        excluded = {
            shape for shape, count in waiting.items() if self._rules.objections(pending, shape.slots * min(need, count))
        }
        pending.excluded_shapes = frozenset(excluded)
        return sum(count for shape, count in waiting.items() if shape not in excluded) >= need

    def over_limit(self, pending: PendingSession, slots: ResourceSlot) -> PendingReason | None:
        """The objections to exactly the slots that an attempt would take."""
        if not pending.rules:
            return None
        found = self._rules.objections(pending, slots)
        return _reason_of(found) if found else None

    def count(self, pending: PendingSession, slots: Sequence[tuple[ResourceSlot, int]]) -> None:
        """Charge the owner for what a session takes from now on, unless it is not charged."""
        first = pending.starts and not pending.placed and not pending.reserved
        session = pending.session
        if first and session.array_limit is not None:
            self._arrays.start(session)
        if not session.session_type.is_charged:
            return
        entry = pending.ledger_entry
        if entry is None:
            entry = self._ledger.entry(session.owner)
        entry.charge(slots, sessions=int(first))
        if first:
            self._backlogs.remove(session)


def _kernels_by_shape(pending: PendingSession) -> Counter[Shape]:
    """How many kernels of each shape wait, whatever batches they are in."""
    waiting: Counter[Shape] = Counter()
    for batch in pending.batches:
        waiting[batch.shape] += len(batch.kernels)
    return waiting


def _too_few_kernels(pending: PendingSession) -> str:
    """Why a session has too few kernels for its own minimums, if so."""
    session = pending.session
    count = pending.have + pending.waiting
    if pending.minimum > count:
        return f"{pending.minimum} kernels must start together, but the session has {count}"
    sizes = Counter(kernel.group for kernel in session.kernels)
    for group, least in session.group_minimums.items():
        if least > sizes[group]:
            return f"{least} kernels of group {group!r} must start together, but there are {sizes[group]}"
    for number, partition in enumerate(session.partitions):
        members = [index for index, group in enumerate(pending.kernel_groups) if group.partition == number]
        complete = sum(1 for index in members if pending.kernel_group_size(index) >= partition.size)
        if complete < partition.min_groups:
            needed = f"{partition.min_groups} groups of {partition.size} by {partition.by} are needed"
            return f"{needed}, there are {complete}"
    small = {i for i, group in enumerate(pending.kernel_groups) if pending.kernel_group_size(i) < group.size}
    stuck = sum(len(batch.kernels) for batch in pending.batches if batch.kernel_group in small)
    if pending.minimum > count - stuck:
        needed = f"{pending.minimum} kernels must start together"
        return f"{needed}, but {stuck} of {count} are in groups that are too small"
    return ""


def _unschedulable_code(waiting: Counter[Shape], need: int) -> Code:
    """The code by the agents that could hold it: none, or only unavailable, failing or avoided ones."""
    if sum(min(count, shape.possible_total) for shape, count in waiting.items()) < need:
        return Code.NEVER_FITS
    if sum(min(count, shape.reachable_total) for shape, count in waiting.items()) < need:
        return Code.NODES_DRAINING
    if sum(min(count, shape.alive_total) for shape, count in waiting.items()) < need:
        return Code.AGENTS_FAILING
    if sum(min(count, shape.usable_total) for shape, count in waiting.items()) < need:
        return Code.OTHER_SHARD
    return Code.AGENTS_AVOIDED


def _reason_of(found: list[tuple[Code, Check]]) -> PendingReason:
    text = "; ".join(check.detail for _, check in found)
    return PendingReason(found[0][0], text, checks=tuple(check for _, check in found))
