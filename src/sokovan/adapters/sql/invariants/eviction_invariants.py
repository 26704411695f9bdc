"""Invariants of evictions: the receipts of a session agree with its history."""

from __future__ import annotations

import sqlalchemy as sa

from sokovan.adapters.sql.invariants.violations import Check, Violations, grouped, no_row
from sokovan.adapters.sql.schema.eviction_codec import NO_EVICTIONS, EvictionReceipt, evictions_of
from sokovan.adapters.sql.schema.tables import KERNEL_HISTORY, KERNELS, SESSIONS
from sokovan.adapters.sql.transaction import Transaction
from sokovan.domain.lifecycle.kernel import KernelStatus, KernelTrigger

_of_session = KERNELS.c.session_id == SESSIONS.c.session_id
_ending = (
    sa.select(sa.func.count())
    .select_from(KERNELS)
    .where(_of_session, KERNELS.c.status == KernelStatus.TERMINATING.value)
    .scalar_subquery()
)


def _times_of(trigger: KernelTrigger) -> sa.ScalarSelect[int]:
    """How often kernels of a session were moved so: those of one eviction in one transaction, at its time."""
    return (
        sa.select(sa.func.count(sa.distinct(KERNEL_HISTORY.c.at_ms)))
        .select_from(KERNEL_HISTORY)
        .join(KERNELS, KERNELS.c.kernel_id == KERNEL_HISTORY.c.object_id)
        .where(_of_session, KERNEL_HISTORY.c.trigger == trigger.value)
        .scalar_subquery()
    )


# A withdrawn eviction has no receipt.
_times = _times_of(KernelTrigger.EVICTED) - _times_of(KernelTrigger.SPARED)


async def _receipts_agree(transaction: Transaction, violations: Violations) -> None:
    statement = (
        sa.select(SESSIONS.c.session_id, SESSIONS.c.evictions, _ending.label("ending"), _times.label("times"))
        .where(SESSIONS.c.evictions != NO_EVICTIONS)
        .order_by(SESSIONS.c.session_id)
    )
    async for session_id, [row, *_] in grouped(transaction, statement, by="session_id"):
        receipts = evictions_of(row.evictions)
        if any(one.ended_ms is None for one in receipts) and not row.ending:
            violations.add("a receipt is open, but no kernel of its session is ending", session_id=session_id)
        if [one.number for one in receipts] != list(range(receipts[0].number, receipts[-1].number + 1)):
            violations.add("the receipts of a session are not numbered in their order", session_id=session_id)
        if row.times > receipts[-1].number:
            violations.add(
                "kernels were evicted more often than there are receipts",
                session_id=session_id,
                times=row.times,
                receipts=receipts[-1].number,
            )
        for one in receipts:
            if not _is_possible(one):
                violations.add("the times of a receipt contradict each other", session_id=session_id, number=one.number)
            if bool(one.for_booking) is bool(one.for_session):
                problem = "a receipt is not for either a session or a booking"
                violations.add(problem, session_id=session_id, number=one.number)


def _is_possible(receipt: EvictionReceipt) -> bool:
    end_ms = receipt.at_ms if receipt.ended_ms is None else receipt.ended_ms
    return receipt.saved_ms <= end_ms >= receipt.at_ms and receipt.evict_at_ms >= receipt.at_ms and receipt.kernels > 0


_evicted = sa.select(SESSIONS.c.session_id, _times.label("times")).where(
    SESSIONS.c.evictions == NO_EVICTIONS,
    sa.exists().where(
        _of_session,
        KERNELS.c.kernel_id == KERNEL_HISTORY.c.object_id,
        KERNEL_HISTORY.c.trigger == KernelTrigger.EVICTED.value,
    ),
    _times > 0,
)
EVICTIONS: tuple[Check, ...] = (
    _receipts_agree,
    no_row("kernels of a session were evicted, and it has no receipt", _evicted),
)
