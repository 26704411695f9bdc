"""Invariants of sessions and kernels: gangs, derived statuses, valid placement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec
import sqlalchemy as sa

from sokovan.adapters.sql.invariants.usage_invariants import HOLDING
from sokovan.adapters.sql.invariants.violations import Check, Violations, grouped, no_row
from sokovan.adapters.sql.repositories.agent_labels import labels_of
from sokovan.adapters.sql.schema.tables import AGENTS, DEPENDENCIES, KERNEL_HISTORY, KERNELS, REQUESTS, SESSIONS
from sokovan.adapters.sql.transaction import Transaction
from sokovan.domain.errors import SokovanError
from sokovan.domain.lifecycle.kernel import ALIVE, KernelStatus
from sokovan.domain.lifecycle.session import Goal, SessionIntent, deciding_statuses, session_status
from sokovan.domain.records import SessionResult

# Sessions and kernels have the same status values here.
_ALIVE = [status.value for status in ALIVE]
_of_session = KERNELS.c.session_id == SESSIONS.c.session_id

_bound = sa.func.count()
GANG_ATOMICITY: tuple[Check, ...] = (
    no_row(
        "fewer kernels are placed than must start together",
        sa.select(SESSIONS.c.session_id, SESSIONS.c.status, SESSIONS.c.required, _bound.label("placed"))
        .select_from(SESSIONS)
        .join(KERNELS, _of_session)
        .where(SESSIONS.c.status.in_(_ALIVE), KERNELS.c.status.in_(_ALIVE))
        .group_by(SESSIONS.c.session_id, SESSIONS.c.status, SESSIONS.c.required)
        .having(_bound < SESSIONS.c.required),
    ),
    no_row(
        "a placed kernel has no rank",
        sa.select(KERNELS.c.kernel_id, KERNELS.c.session_id).where(HOLDING, KERNELS.c.rank.is_(None)),
    ),
    no_row(
        "two kernels of a session have the same rank",
        sa.select(KERNELS.c.session_id, KERNELS.c.rank, _bound.label("kernels"))
        .where(HOLDING)
        .group_by(KERNELS.c.session_id, KERNELS.c.rank)
        .having(sa.and_(_bound > 1, KERNELS.c.rank.is_not(None))),
    ),
)


async def _statuses_follow(transaction: Transaction, violations: Violations) -> None:
    newer = KERNELS.alias()
    replaced = sa.exists().where(
        newer.c.session_id == KERNELS.c.session_id,
        newer.c.index == KERNELS.c.index,
        newer.c.attempt > KERNELS.c.attempt,
    )
    intent = (SESSIONS.c.session_id, SESSIONS.c.status, SESSIONS.c.goal, SESSIONS.c.required)
    statement = (
        sa.select(*intent, KERNELS.c.status.label("kernel_status"), KERNELS.c.follow_up)
        .select_from(SESSIONS)
        .outerjoin(KERNELS, sa.and_(_of_session, ~replaced))
        .order_by(SESSIONS.c.session_id)
    )
    async for session_id, rows in grouped(transaction, statement, by="session_id"):
        session = rows[0]
        known = Counter((row.kernel_status, row.follow_up is not None) for row in rows if row.kernel_status is not None)
        kernels = tuple(sorted(known.items()))
        derived = _derived(session.goal, session.required, kernels)
        if derived != session.status:
            counted = " ".join(f"{status}={number}" for (status, _), number in kernels) or "none"
            violations.add(
                "a session's status does not follow from its kernels",
                session_id=session_id,
                status=session.status,
                derived=derived,
                goal=session.goal,
                kernels=counted,
            )


# Cached: millions of sessions have few distinct combinations of kernel statuses.
@cache
def _derived(goal: int, required: int, kernels: tuple[tuple[tuple[str, bool], int], ...]) -> str:
    try:
        each = ((KernelStatus(status), alone) for (status, alone), number in kernels for _ in range(number))
        statuses = deciding_statuses(each)
        return session_status(SessionIntent(goal=Goal(goal), required=required), statuses).value
    except (ValueError, SokovanError):
        return "none: goal, required or a kernel's status is not a valid value"


DERIVED_STATUS: tuple[Check, ...] = (_statuses_follow,)

IDEMPOTENT_SUBMIT: tuple[Check, ...] = (
    no_row(
        "an idempotency key belongs to more than one request",
        sa.select(REQUESTS.c.scope, REQUESTS.c.key, sa.func.count().label("requests"))
        .group_by(REQUESTS.c.scope, REQUESTS.c.key)
        .having(sa.func.count() > 1),
    ),
    no_row(
        "the session of an idempotency key does not exist",
        sa.select(REQUESTS.c.scope, REQUESTS.c.key, REQUESTS.c.session_id)
        .select_from(REQUESTS)
        .outerjoin(SESSIONS, SESSIONS.c.session_id == REQUESTS.c.session_id)
        .where(SESSIONS.c.session_id.is_(None)),
    ),
)

_earlier = SESSIONS.alias()
_succeeded = sa.and_(_earlier.c.ended_ms.is_not(None), _earlier.c.result == SessionResult.SUCCESS.value)
DEPENDENCIES_MET: tuple[Check, ...] = (
    no_row(
        "a session was scheduled, but a session it depends on has not succeeded",
        sa.select(
            SESSIONS.c.session_id,
            SESSIONS.c.scheduled_ms,
            DEPENDENCIES.c.depends_on,
            _earlier.c.status.label("its_status"),
            _earlier.c.result.label("its_result"),
        )
        .select_from(SESSIONS)
        .join(DEPENDENCIES, DEPENDENCIES.c.session_id == SESSIONS.c.session_id)
        .outerjoin(_earlier, _earlier.c.session_id == DEPENDENCIES.c.depends_on)
        .where(SESSIONS.c.scheduled_ms.is_not(None), sa.not_(sa.func.coalesce(_succeeded, sa.false()))),
    ),
)

_placed = (
    sa.select(KERNELS.c.kernel_id, KERNELS.c.agent_id)
    .select_from(KERNELS)
    .join(SESSIONS, _of_session)
    .outerjoin(AGENTS, AGENTS.c.agent_id == KERNELS.c.agent_id)
    .where(HOLDING)
)
# Attributes of an agent change only when it enrols again, so kernels of earlier incarnations are not compared.
_here = KERNELS.c.incarnation == AGENTS.c.incarnation


async def _labels_fit(transaction: Transaction, violations: Violations) -> None:
    statement = _placed.add_columns(KERNELS.c.require, AGENTS.c.labels, AGENTS.c.operator_labels).where(
        _here, KERNELS.c.require != "{}"
    )
    async for kernel_id, [row, *_] in grouped(transaction, statement.order_by(KERNELS.c.kernel_id), by="kernel_id"):
        labels = labels_of(row)
        for name, value in _decoded(row.require).items():
            if labels.get(name) != value:
                about = {"kernel_id": kernel_id, "agent_id": row.agent_id, "label": name, "found": labels.get(name)}
                violations.add("a kernel is placed on an agent without a required label", **about, required=value)


@cache
def _decoded(text: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = msgspec.json.decode(text)
    return found


PLACEMENT_VALIDITY: tuple[Check, ...] = (
    no_row("a kernel is placed on an agent that does not exist", _placed.where(AGENTS.c.agent_id.is_(None))),
    no_row(
        "a kernel is placed on an incarnation that its agent has not reached",
        _placed.add_columns(KERNELS.c.incarnation, AGENTS.c.incarnation.label("agent_incarnation")).where(
            sa.func.coalesce(KERNELS.c.incarnation > AGENTS.c.incarnation, sa.true()), AGENTS.c.agent_id.is_not(None)
        ),
    ),
    no_row(
        "a kernel is placed on an agent of another scaling group",
        _placed.add_columns(SESSIONS.c.scaling_group, AGENTS.c.scaling_group.label("agent_scaling_group")).where(
            _here, SESSIONS.c.scaling_group != AGENTS.c.scaling_group
        ),
    ),
    no_row(
        "a kernel is placed on an agent of another architecture",
        _placed.add_columns(KERNELS.c.architecture, AGENTS.c.architecture.label("agent_architecture")).where(
            _here, KERNELS.c.architecture != AGENTS.c.architecture
        ),
    ),
    _labels_fit,
)

_kernel = (KERNELS.c.kernel_id, KERNELS.c.status, KERNELS.c.agent_id, KERNELS.c.sent)
_later = KERNEL_HISTORY.alias()
# In the current attempt: no later entry lets the kernel wait again.
_was_creating = sa.exists().where(
    KERNEL_HISTORY.c.object_id == KERNELS.c.kernel_id,
    KERNEL_HISTORY.c.after == KernelStatus.CREATING.value,
    ~sa.exists().where(
        _later.c.object_id == KERNEL_HISTORY.c.object_id,
        _later.c.sequence > KERNEL_HISTORY.c.sequence,
        _later.c.after == KernelStatus.PENDING.value,
    ),
)
INTENT_BEFORE_ACTION: tuple[Check, ...] = (
    no_row(
        "a kernel is CREATING or RUNNING, but not stored as sent",
        sa.select(*_kernel).where(
            KERNELS.c.status.in_([KernelStatus.CREATING.value, KernelStatus.RUNNING.value]),
            sa.or_(sa.not_(KERNELS.c.sent), KERNELS.c.agent_id.is_(None)),
        ),
    ),
    no_row(
        "a kernel was CREATING, but is not stored as sent",
        sa.select(*_kernel).where(
            KERNELS.c.status.not_in([KernelStatus.CREATING.value, KernelStatus.RUNNING.value]),
            sa.not_(KERNELS.c.sent),
            _was_creating,
        ),
    ),
    no_row(
        "a kernel is stored as sent, but was never CREATING",
        sa.select(*_kernel).where(KERNELS.c.sent, ~_was_creating),
    ),
)
