"""Limits and weights of owners; limits are cached until their tables change."""

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
from sokovan.domain.owners.policy import ResourcePolicy, Scope
from sokovan.domain.plain_values import from_plain

OWNED = {Scope.KEYPAIR: KEYPAIRS, Scope.USER: USERS, Scope.GROUP: GROUPS, Scope.DOMAIN: DOMAINS}
_KINDS = frozenset(table.name for table in (*OWNED.values(), POLICIES))
_MARKS = sa.select(CATALOG_MARKS.c.kind, CATALOG_MARKS.c.stamp)
# One statement per scope, so that a policy written concurrently is seen with its owner or not at all.
_POLICIES = {
    scope: sa.select(table.c.name, POLICIES.c.body).join(POLICIES, POLICIES.c.name == table.c.policy)
    for scope, table in OWNED.items()
}
_BODIES = {table: sa.select(table.c.name, table.c.body) for table in (USERS, GROUPS)}


# Limits per slot, by scope and name of the owner.
OwnerLimits = Mapping[tuple[str, str], Mapping[str, int]]


class OwnerLimitCache:
    """Caches all limits of owners."""

    def __init__(self) -> None:
        # The versions of all catalogue tables, in the view of the last transaction.
        self.versions: Mapping[str, int] = {}
        self._marks: Mapping[str, int] | None = None
        self._limits: OwnerLimits = {}

    async def current(self, transaction: Transaction) -> OwnerLimits:
        """The limits in this transaction's view; read again only after a change."""
        self.versions = {row.kind: row.stamp for row in await transaction.fetch(_MARKS)}
        marks = {kind: stamp for kind, stamp in self.versions.items() if kind in _KINDS}
        if marks != self._marks:
            policies = await policies_by_owner(transaction)
            self._limits = {
                (scope.value, name): limits
                for scope, owners in policies.items()
                for name, policy in owners.items()
                if (limits := _limits_of(policy))
            }
            self._marks = marks
        return self._limits


async def policies_by_owner(transaction: Transaction) -> dict[Scope, dict[str, ResourcePolicy]]:
    """The policy of every owner that has one."""
    found: dict[Scope, dict[str, ResourcePolicy]] = {}
    for scope, statement in _POLICIES.items():
        found[scope] = {row.name: policy_of(row) for row in await transaction.fetch(statement)}
    return found


class _Weighted(msgspec.Struct):
    """The part of a stored user or group that fair share needs."""

    weight: int = 1


async def weights_of(transaction: Transaction, table: sa.Table) -> dict[str, int]:
    """The weights of users or groups that differ from 1."""
    found = {}
    for row in await transaction.fetch(_BODIES[table]):
        weight = msgspec.json.decode(row.body, type=_Weighted).weight
        if weight != 1:
            found[row.name] = weight
    return found


def policy_of(row: Any) -> ResourcePolicy:
    """Decode a stored policy."""
    return from_plain(ResourcePolicy, msgspec.json.decode(row.body), key="quota")


def _limits_of(policy: ResourcePolicy) -> dict[str, int]:
    limits = dict(policy.slots_max)
    if policy.sessions_max is not None:
        limits[SESSIONS_SLOT] = policy.sessions_max
    return limits
