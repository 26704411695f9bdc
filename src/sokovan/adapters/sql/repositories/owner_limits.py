"""The limits of owners, kept in memory while their tables stay the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import sqlalchemy as sa

from sokovan.adapters.sql.schema.tables import (
    CATALOG_MARKS,
    DOMAINS,
    GROUPS,
    KEYPAIRS,
    POLICIES,
    SESSIONS_SLOT,
    USERS,
)
from sokovan.adapters.sql.transaction import Transaction
from sokovan.domain.plain_values import from_plain
from sokovan.domain.policy import ResourcePolicy, Scope

OWNED = {Scope.KEYPAIR: KEYPAIRS, Scope.USER: USERS, Scope.GROUP: GROUPS, Scope.DOMAIN: DOMAINS}
_KINDS = [table.name for table in (*OWNED.values(), POLICIES)]


# By scope and name of the owner: what it may use of each slot.
OwnerLimits = Mapping[tuple[str, str], Mapping[str, int]]


class OwnerLimitCache:
    """Every limit that is set."""

    def __init__(self) -> None:
        self._marks: Mapping[str, int] | None = None
        self._limits: OwnerLimits = {}

    async def current(self, transaction: Transaction) -> OwnerLimits:
        """The limits as this transaction sees them; read again only if one was written."""
        statement = sa.select(CATALOG_MARKS.c.kind, CATALOG_MARKS.c.stamp).where(CATALOG_MARKS.c.kind.in_(_KINDS))
        marks = {row.kind: row.stamp for row in await transaction.fetch(statement)}
        if marks != self._marks:
            policies = await policies_by_owner(transaction)
            self._limits = {
                (scope.value, name): limits
                for scope, owners in policies.items()
                for name, policy in owners.items()
                if (limits := _limits_of(scope, policy))
            }
            self._marks = marks
        return self._limits


async def policies_by_owner(transaction: Transaction) -> dict[Scope, dict[str, ResourcePolicy]]:
    """The policy of every owner that has one."""
    found: dict[Scope, dict[str, ResourcePolicy]] = {}
    for scope, table in OWNED.items():
        # In one statement: a policy that is written at this moment is seen with its owner, or not at all.
        statement = sa.select(table.c.name, POLICIES.c.body).join(POLICIES, POLICIES.c.name == table.c.policy)
        found[scope] = {row.name: policy_of(row) for row in await transaction.fetch(statement)}
    return found


def policy_of(row: Any) -> ResourcePolicy:
    """A stored policy."""
    return from_plain(ResourcePolicy, msgspec.json.decode(row.body), key="resource policy")


def _limits_of(scope: Scope, policy: ResourcePolicy) -> dict[str, int]:
    limits = dict(policy.slots_max)
    # How many sessions at a time is a limit of keypairs, as in the core.
    if scope is Scope.KEYPAIR and policy.sessions_max is not None:
        limits[SESSIONS_SLOT] = policy.sessions_max
    return limits
