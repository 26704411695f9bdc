"""Laws of the store as questions in SQL that both databases answer: every row is a breach.

They are cheap enough to be asked many times during a test; `audit` asks everything, at its end.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import sqlalchemy as sa

from sokovan.adapters.sql.store import SqlStore, SqlUnitOfWork
from sokovan.domain.lifecycle.kernel import HOLDS_SLOTS
from sokovan.domain.lifecycle.session import SessionStatus

_OPEN = (
    SessionStatus.SCHEDULED,
    SessionStatus.PREPARING,
    SessionStatus.PULLING,
    SessionStatus.PREPARED,
    SessionStatus.CREATING,
    SessionStatus.RUNNING,
)
_HOLDS = ", ".join(f"'{status.value}'" for status in sorted(HOLDS_SLOTS))
_BOUND = ", ".join(f"'{status.value}'" for status in _OPEN)

LAWS = {
    "what is used is what kernels hold": """
        SELECT s.agent_id, s.slot, s.used, coalesce(h.held, 0) AS held
          FROM agent_slots s
          LEFT JOIN (SELECT agent_id, slot, sum(amount) AS held FROM held_slots
                      WHERE freed_ms IS NULL GROUP BY agent_id, slot) h
            ON h.agent_id = s.agent_id AND h.slot = s.slot
         WHERE s.used <> coalesce(h.held, 0)""",
    "no agent gives more than it has": """
        SELECT agent_id, slot, used, capacity FROM agent_slots WHERE used < 0 OR used > capacity""",
    "an agent counts its kernels": f"""
        SELECT a.agent_id, a.kernel_count, count(k.kernel_id) AS kernels
          FROM agents a LEFT JOIN kernels k ON k.agent_id = a.agent_id AND k.status IN ({_HOLDS})
         GROUP BY a.agent_id, a.kernel_count HAVING a.kernel_count <> count(k.kernel_id)""",
    "a kernel holds slots as long as its status says so": f"""
        SELECT k.kernel_id, k.status, count(h.slot) AS lines
          FROM kernels k LEFT JOIN held_slots h ON h.kernel_id = k.kernel_id AND h.freed_ms IS NULL
         GROUP BY k.kernel_id, k.status HAVING (k.status IN ({_HOLDS})) <> (count(h.slot) > 0)""",
    "an owner uses what its sessions hold": """
        SELECT o.name, o.slot, o.used, coalesce(h.held, 0) AS held
          FROM owner_usage o
          LEFT JOIN (SELECT s."user" AS name, h.slot, sum(h.amount) AS held
                       FROM held_slots h
                       JOIN kernels k ON k.kernel_id = h.kernel_id
                       JOIN sessions s ON s.session_id = k.session_id
                      WHERE h.freed_ms IS NULL GROUP BY s."user", h.slot) h
            ON h.name = o.name AND h.slot = o.slot
         WHERE o.scope = 'user' AND o.slot <> '#sessions' AND o.used <> coalesce(h.held, 0)""",
    "a kernel is allocated once": """
        SELECT object_id, count(*) AS times FROM kernel_history
         WHERE "trigger" = 'allocated' GROUP BY object_id HAVING count(*) > 1""",
    "a gang is bound whole": f"""
        SELECT s.session_id, s.status, s.required, count(k.kernel_id) AS bound
          FROM sessions s JOIN kernels k ON k.session_id = s.session_id AND k.status IN ({_HOLDS})
         WHERE s.status IN ({_BOUND})
         GROUP BY s.session_id, s.status, s.required HAVING count(k.kernel_id) < s.required""",
}

Fetch = Callable[[str], Awaitable[Sequence[Any]]]


async def breaches(store: SqlStore) -> list[str]:
    """What breaks a law, on one state of the database."""

    async def work(unit: SqlUnitOfWork) -> list[str]:
        found = []
        for law, question in LAWS.items():
            rows = await unit.transaction.fetch(sa.text(question))
            found += [f"{law}: {dict(row._mapping)}" for row in rows]
        return found

    return await store.read(work)
