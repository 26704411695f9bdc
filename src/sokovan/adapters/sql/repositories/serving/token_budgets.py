"""Leases of monthly token budgets to proxies, on SQL."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from sokovan.adapters.sql.schema.tables import SERVING
from sokovan.adapters.sql.transaction import Transaction, bound_ids, ids_table
from sokovan.domain.plain_values import from_plain
from sokovan.domain.serving.budget import BudgetGrant, BudgetNeed, Month, increase, month_of
from sokovan.domain.serving.records import UsageCount
from sokovan.domain.serving.token import EndpointTokenSpec

_TABLE, _TOKENS = SERVING.budget_leases, SERVING.tokens
_KEY = ("key_id", "month", "proxy_id")


@dataclass(slots=True)
class _Lease:
    """The tokens that a proxy may use of a key in a month, and those that it used."""

    leased: int = 0
    used: int = 0


class SqlTokenBudgets:
    """The budgets of keys as one proxy leases and uses them."""

    def __init__(self, transaction: Transaction, proxy_id: str) -> None:
        self._transaction, self._proxy = transaction, proxy_id

    async def forget(self, month: Month) -> None:
        """Take back what the proxy did not use: it was started again and has no lease."""
        mine = (_TABLE.c.proxy_id == self._proxy, _TABLE.c.month == month.start)
        await self._transaction.execute(sa.update(_TABLE).where(*mine).values(leased=_TABLE.c.used))

    async def settle(
        self, usage: Sequence[UsageCount], needs: Sequence[BudgetNeed], month: Month
    ) -> tuple[BudgetGrant, ...]:
        """Count usage against the leases, and lease what is needed in the month."""
        budgets = await self._budgets({one.key_id for one in usage} | {one.key_id for one in needs})
        if not budgets:
            return ()
        mine, others = await self._leases(budgets, month)
        for count in usage:
            if count.key_id in budgets:
                # A request is counted in the month in which it ended.
                lease = mine.setdefault((count.key_id, month_of(count.minute).start), _Lease())
                lease.used += count.tokens
                lease.leased = max(lease.leased, lease.used)
        grants = []
        for need in needs:
            budget = budgets.get(need.key_id)
            if budget is not None:
                lease = mine.setdefault((need.key_id, month.start), _Lease())
                grants.append(_granted(need, lease, budget, others.get(need.key_id, 0)))
        await self._write(mine)
        return tuple(grants)

    async def _budgets(self, keys: Collection[str]) -> Mapping[str, int]:
        """The budgets of those keys that have one; their rows are locked, in order."""
        if not keys:
            return {}
        wanted = _TOKENS.c.token_id.in_(sa.select(ids_table(self._transaction.postgresql).c.id))
        statement = sa.select(_TOKENS.c.token_id, _TOKENS.c.body).where(wanted).order_by(_TOKENS.c.token_id)
        bound = bound_ids(self._transaction, sorted(keys))
        found: dict[str, int] = {}
        for row in await self._transaction.fetch(statement.with_for_update(), bound):
            spec = from_plain(EndpointTokenSpec, msgspec.json.decode(row.body), key="token")
            if spec.limits.tokens_per_month is not None:
                found[row.token_id] = spec.limits.tokens_per_month
        return found

    async def _leases(
        self, keys: Collection[str], month: Month
    ) -> tuple[dict[tuple[str, int], _Lease], Mapping[str, int]]:
        """The leases of this proxy by key and month, and what others have this month."""
        wanted = _TABLE.c.key_id.in_(sa.select(ids_table(self._transaction.postgresql).c.id))
        mine: dict[tuple[str, int], _Lease] = {}
        others: dict[str, int] = {}
        for row in await self._transaction.fetch(
            sa.select(_TABLE).where(wanted), bound_ids(self._transaction, sorted(keys))
        ):
            if row.proxy_id == self._proxy:
                mine[row.key_id, row.month] = _Lease(row.leased, row.used)
            elif row.month == month.start:
                others[row.key_id] = others.get(row.key_id, 0) + row.leased
        return mine, others

    async def _write(self, leases: Mapping[tuple[str, int], _Lease]) -> None:
        insert: Any = (postgresql.insert if self._transaction.postgresql else sqlite.insert)(_TABLE)
        values = {name: insert.excluded[name] for name in ("leased", "used")}
        rows = [
            {"key_id": key_id, "month": month, "proxy_id": self._proxy, "leased": one.leased, "used": one.used}
            for (key_id, month), one in sorted(leases.items())
        ]
        if rows:
            statement = insert.on_conflict_do_update(index_elements=list(_KEY), set_=values)
            await self._transaction.execute(statement, rows)


def _granted(need: BudgetNeed, lease: _Lease, budget: int, leased_by_others: int) -> BudgetGrant:
    """Change the lease of one key by a need."""
    if need.returned:
        lease.leased = lease.used
    else:
        unleased = budget - leased_by_others - lease.leased
        free = lease.leased - lease.used
        lease.leased += increase(budget=budget, unleased=unleased, free=free, needed=need.tokens)
    return BudgetGrant(
        key_id=need.key_id,
        tokens=lease.leased - lease.used,
        budget=budget,
        unleased=max(0, budget - leased_by_others - lease.leased),
    )
