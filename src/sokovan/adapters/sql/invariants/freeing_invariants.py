"""Invariants of freed slots: with a proof, and once."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from sokovan.adapters.sql.invariants.violations import Check, no_row
from sokovan.adapters.sql.schema.tables import AGENT_DEVICES, AGENTS, HELD_DEVICES, HELD_SLOTS, KERNELS, OWNER_USAGE
from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.domain.lifecycle.kernel import FreeProof, KernelStatus

_NO_SLOTS = "{}"

_of_attempt = sa.and_(HELD_SLOTS.c.kernel_id == KERNELS.c.kernel_id, HELD_SLOTS.c.attempt == KERNELS.c.attempt)
_row = (HELD_SLOTS.c.kernel_id, HELD_SLOTS.c.slot, HELD_SLOTS.c.proof)
CONFIRM_BEFORE_FREE: tuple[Check, ...] = (
    no_row(
        "a ledger row is freed without a proof, or has a proof and is not freed",
        sa.select(*_row, HELD_SLOTS.c.freed_ms).where(HELD_SLOTS.c.proof.is_(None) != HELD_SLOTS.c.freed_ms.is_(None)),
    ),
    no_row(
        "a proof of an unknown kind",
        sa.select(*_row).where(HELD_SLOTS.c.proof.not_in([proof.value for proof in FreeProof])),
    ),
    no_row(
        "freed as never sent, but its creation was requested",
        sa.select(*_row)
        .select_from(HELD_SLOTS)
        .join(KERNELS, _of_attempt)
        .where(HELD_SLOTS.c.proof == FreeProof.NEVER_SENT.value, KERNELS.c.sent),
    ),
    no_row(
        "freed as fenced, but the agent has not enrolled again since",
        sa.select(*_row, HELD_SLOTS.c.incarnation, AGENTS.c.incarnation.label("agent_incarnation"))
        .select_from(HELD_SLOTS)
        .join(AGENTS, AGENTS.c.agent_id == HELD_SLOTS.c.agent_id)
        .where(
            HELD_SLOTS.c.proof == FreeProof.INCARNATION_FENCED.value,
            AGENTS.c.incarnation <= HELD_SLOTS.c.incarnation,
        ),
    ),
    no_row(
        "freed as gone with its host, but the agent was not declared gone",
        sa.select(*_row, AGENTS.c.agent_id, AGENTS.c.status)
        .select_from(HELD_SLOTS)
        .join(AGENTS, AGENTS.c.agent_id == HELD_SLOTS.c.agent_id)
        .where(HELD_SLOTS.c.proof == FreeProof.HOST_GONE.value, AGENTS.c.status != AgentStatus.TERMINATED.value),
    ),
    no_row(
        "a kernel has ended, but no ledger row has the proof",
        sa.select(KERNELS.c.kernel_id, KERNELS.c.status, KERNELS.c.slots).where(
            KERNELS.c.status == KernelStatus.TERMINATED.value,
            KERNELS.c.slots != _NO_SLOTS,
            ~sa.exists().where(_of_attempt),
        ),
    ),
)

_lines, _freed = sa.func.count(), sa.func.count(HELD_SLOTS.c.freed_ms)
_times = sa.func.count(sa.distinct(HELD_SLOTS.c.freed_ms))
_proofs = sa.func.count(sa.distinct(HELD_SLOTS.c.proof))


def _below(least: int, amount: sa.Column[int], *keys: sa.Column[Any]) -> Check:
    return no_row(f"{amount} is below {least}", sa.select(*keys, amount).where(amount < least))


FREE_ONCE: tuple[Check, ...] = (
    no_row(
        "the ledger rows of a kernel were not freed once and together",
        sa.select(
            HELD_SLOTS.c.kernel_id,
            _lines.label("lines"),
            _freed.label("freed"),
            _times.label("times"),
            _proofs.label("proofs"),
        )
        .group_by(HELD_SLOTS.c.kernel_id, HELD_SLOTS.c.attempt)
        .having(sa.or_(_times > 1, _proofs > 1, _freed.not_in([0, _lines]))),
    ),
    no_row(
        "a device was not freed together with the slots of its kernel",
        sa.select(
            HELD_DEVICES.c.kernel_id,
            HELD_DEVICES.c.device_id,
            HELD_DEVICES.c.freed_ms,
            HELD_SLOTS.c.freed_ms.label("slots_freed_ms"),
        )
        .distinct()
        .select_from(HELD_DEVICES)
        .join(
            HELD_SLOTS,
            sa.and_(HELD_SLOTS.c.kernel_id == HELD_DEVICES.c.kernel_id, HELD_SLOTS.c.attempt == HELD_DEVICES.c.attempt),
        )
        .where(HELD_DEVICES.c.freed_ms.is_distinct_from(HELD_SLOTS.c.freed_ms)),
    ),
    _below(1, HELD_SLOTS.c.amount, HELD_SLOTS.c.kernel_id, HELD_SLOTS.c.slot),
    _below(1, HELD_DEVICES.c.units, HELD_DEVICES.c.kernel_id, HELD_DEVICES.c.device_id),
    _below(0, OWNER_USAGE.c.used, OWNER_USAGE.c.scope, OWNER_USAGE.c.name, OWNER_USAGE.c.slot),
    _below(0, AGENTS.c.kernel_count, AGENTS.c.agent_id),
    _below(0, AGENT_DEVICES.c.used, AGENT_DEVICES.c.agent_id, AGENT_DEVICES.c.device_id),
)
