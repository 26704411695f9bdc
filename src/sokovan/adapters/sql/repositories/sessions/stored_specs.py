"""Changes of the stored spec of a session that is pending."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import sqlalchemy as sa

from sokovan.adapters.sql.repositories.sessions.session_rows import spec_of, spec_text
from sokovan.adapters.sql.schema.tables import DEPENDENCIES, KERNELS, SESSIONS
from sokovan.adapters.sql.transaction import Transaction
from sokovan.domain.errors import Conflict
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.session import SESSION
from sokovan.domain.session import SessionSpec


async def write_spec(transaction: Transaction, spec: SessionSpec) -> None:
    """Replace the spec of a session that the transaction has locked.

    The versions of its kernels change too: a copy that was read before must not move them.
    """
    await transaction.execute(
        sa.update(SESSIONS)
        .where(SESSIONS.c.session_id == spec.session_id)
        .values(body=spec_text(spec), stamp=transaction.stamp, version=SESSIONS.c.version + 1)
    )
    await transaction.execute(
        sa.update(KERNELS).where(KERNELS.c.session_id == spec.session_id).values(version=KERNELS.c.version + 1)
    )


async def replace_dependency(transaction: Transaction, before: SessionId, after: SessionId) -> None:
    """Make PENDING and later sessions that depend on `before` depend on `after`.

    In its array, `before` no longer counts.
    """
    # First, because it waits for units of work that add dependents.
    marked = sa.update(SESSIONS).where(SESSIONS.c.session_id == before).values(replaced_by=after, array_id=None)
    await transaction.execute(marked)
    waiting = await transaction.fetch(
        sa.select(SESSIONS.c.session_id, SESSIONS.c.body)
        .join(DEPENDENCIES, DEPENDENCIES.c.session_id == SESSIONS.c.session_id)
        .where(DEPENDENCIES.c.depends_on == before, SESSIONS.c.status == SESSION.initial.value)
        .order_by(SESSIONS.c.session_id)
        .with_for_update(of=SESSIONS)
    )
    for row in waiting:
        spec = spec_of(row.body)
        dependencies = tuple(after if one == before else one for one in spec.dependencies)
        await write_spec(transaction, replace(spec, dependencies=dependencies))
        await transaction.execute(
            sa.update(DEPENDENCIES)
            .where(DEPENDENCIES.c.session_id == row.session_id, DEPENDENCIES.c.depends_on == before)
            .values(depends_on=after)
        )


async def open_gates(transaction: Transaction, session_id: SessionId, gates: Collection[str]) -> bool:
    """Remove gates from a spec; whether it had one of them.

    Raises Conflict if it is not pending.
    """
    row = await transaction.first(
        sa.select(SESSIONS.c.body, SESSIONS.c.status).where(SESSIONS.c.session_id == session_id).with_for_update()
    )
    spec = None if row is None else spec_of(row.body)
    if row is None or spec is None or not set(spec.gates) & set(gates):
        return False
    if row.status != SESSION.initial.value:
        raise Conflict(
            f"session {spec.name or session_id} is {row.status}; only a pending session can be released",
            hint="submit it again",
        )
    await write_spec(transaction, replace(spec, gates=tuple(one for one in spec.gates if one not in gates)))
    return True
