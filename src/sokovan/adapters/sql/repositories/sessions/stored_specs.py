"""Changes of the stored spec of a session that is pending."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import sqlalchemy as sa

from sokovan.adapters.sql.repositories.sessions.session_rows import chosen_by_id
from sokovan.adapters.sql.repositories.sessions.session_summaries import summary_text
from sokovan.adapters.sql.schema.spec_codec import spec_of, spec_text
from sokovan.adapters.sql.schema.tables import DEPENDENCIES, KERNELS, SESSIONS
from sokovan.adapters.sql.transaction import Transaction, bound_ids
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.session import SESSION
from sokovan.domain.session import SessionSpec

# Built once: building a statement costs more than running it.
_WRITE_SPEC = (
    sa.update(SESSIONS)
    .where(SESSIONS.c.session_id == sa.bindparam("of"))
    .values(
        body=sa.bindparam("text"),
        summary=sa.bindparam("short"),
        stamp=sa.bindparam("at"),
        version=SESSIONS.c.version + 1,
    )
)
_CHANGE_KERNELS = (
    sa.update(KERNELS).where(KERNELS.c.session_id == sa.bindparam("of")).values(version=KERNELS.c.version + 1)
)


async def write_specs(transaction: Transaction, specs: Sequence[SessionSpec]) -> None:
    """Replace the specs of sessions that the transaction has locked.

    The versions of their kernels change too: a copy that was read before must not move them.
    """
    if not specs:
        return
    written = [
        {"of": one.session_id, "text": spec_text(one), "short": summary_text(one), "at": transaction.stamp}
        for one in specs
    ]
    await transaction.execute(_WRITE_SPEC, written)
    await transaction.execute(_CHANGE_KERNELS, [{"of": one.session_id} for one in specs])


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
        await write_specs(transaction, [replace(spec, dependencies=dependencies)])
        await transaction.execute(
            sa.update(DEPENDENCIES)
            .where(DEPENDENCIES.c.session_id == row.session_id, DEPENDENCIES.c.depends_on == before)
            .values(depends_on=after)
        )


async def open_gates(
    transaction: Transaction, session_ids: Sequence[SessionId], gates: Collection[str]
) -> list[SessionId]:
    """Remove gates from the specs of pending sessions; those that had one of them."""
    chosen = chosen_by_id(transaction.postgresql).where(SESSIONS.c.status == SESSION.initial.value)
    rows = await transaction.fetch(chosen.with_for_update(), bound_ids(transaction, session_ids))
    opened = [spec for row in rows if not set((spec := spec_of(row.body)).gates).isdisjoint(gates)]
    left = [replace(spec, gates=tuple(one for one in spec.gates if one not in gates)) for spec in opened]
    await write_specs(transaction, left)
    return [spec.session_id for spec in opened]
