"""The catalog: small tables with a name, references, and the rest as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from sokovan.adapters.sql.repositories.agent_labels import labels_of
from sokovan.adapters.sql.repositories.catalog_locks import lock_to_change
from sokovan.adapters.sql.schema.tables import (
    AGENT_GRANTS,
    AGENTS,
    BOOKINGS,
    CATALOG_MARKS,
    DEPLOYMENTS,
    DOMAINS,
    GROUPS,
    IMAGES,
    JOIN_TOKENS,
    KEYPAIRS,
    LOGIN_CODES,
    LOGINS,
    POLICIES,
    QUEUES,
    SCALING_GROUPS,
    SESSIONS,
    TOPOLOGY,
    USERS,
)
from sokovan.adapters.sql.transaction import Transaction
from sokovan.domain.cluster.agent_grant import AgentGrant, JoinToken
from sokovan.domain.cluster.image import Image
from sokovan.domain.cluster.queue import ROOT_QUEUE, Queue, QueueTree
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.cluster.topology_rules import Topology
from sokovan.domain.errors import Conflict, InvalidQueues, InvalidTopology, ObjectNotFound, StaleVersion
from sokovan.domain.lifecycle.session import SESSION
from sokovan.domain.owners.login import Login, LoginCode
from sokovan.domain.owners.policy import ResourcePolicy, Scope
from sokovan.domain.owners.tenancy import Domain, Group, Keypair, User
from sokovan.domain.plain_values import from_plain, to_plain
from sokovan.ports.repositories.catalog import Booking, CatalogItem, Item


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """The table of one kind of item, and its references to other items."""

    table: sa.Table
    what: str
    refers: tuple[tuple[str, sa.Table, str], ...] = ()
    key: Callable[[Any], str] = lambda item: str(item.name)


_POLICY = ("policy", POLICIES, "quota")
CATALOG_TABLES: dict[type, CatalogTable] = {
    Domain: CatalogTable(DOMAINS, "domain", (_POLICY,)),
    Group: CatalogTable(GROUPS, "group", (("domain", DOMAINS, "domain"), _POLICY)),
    User: CatalogTable(USERS, "user", (("domain", DOMAINS, "domain"), _POLICY)),
    Keypair: CatalogTable(KEYPAIRS, "key", (("user", USERS, "user"), _POLICY), key=lambda item: str(item.access_key)),
    ResourcePolicy: CatalogTable(POLICIES, "quota"),
    ScalingGroup: CatalogTable(SCALING_GROUPS, "scaling group"),
    Queue: CatalogTable(QUEUES, "queue"),
    Topology: CatalogTable(TOPOLOGY, "topology"),
    Booking: CatalogTable(BOOKINGS, "booking"),
    # An image may exist for several architectures.
    Image: CatalogTable(IMAGES, "image", key=lambda item: f"{item.name} {item.architecture}"),
    JoinToken: CatalogTable(JOIN_TOKENS, "join token"),
    AgentGrant: CatalogTable(AGENT_GRANTS, "agent grant"),
    Login: CatalogTable(LOGINS, "login"),
    LoginCode: CatalogTable(LOGIN_CODES, "login code"),
}
# Owners that a scaling group may be assigned to, as `scope:name`.
_SCOPES = {Domain: Scope.DOMAIN, Group: Scope.GROUP, User: Scope.USER, Keypair: Scope.KEYPAIR}


class SqlCatalog:
    """The catalog on SQL."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def put(self, *items: CatalogItem) -> None:
        """See the port."""
        async with self._transaction.savepoint():
            for item in items:
                await self._put(item)
            for kind in {type(item) for item in items}:
                await self._check_tree(kind)

    async def get(self, kind: type[Item], name: str) -> Item:
        """See the port."""
        entry = CATALOG_TABLES[kind]
        row = await self._transaction.first(sa.select(entry.table.c.body).where(entry.table.c.name == _queryable(name)))
        if row is None:
            raise ObjectNotFound(what=entry.what, name=name)
        return item_of(kind, row.body)

    async def find(self, *wanted: tuple[type[CatalogItem], str]) -> Sequence[CatalogItem | None]:
        """See the port."""
        if not wanted:
            return []
        names = {f"name_{place}": _queryable(name) for place, (_, name) in enumerate(wanted)}
        rows = await self._transaction.fetch(_find_statement(tuple(kind for kind, _ in wanted)), names)
        bodies = {row.place: row.body for row in rows}
        # mypy cannot relate each kind to its item.
        return [
            item_of(kind, bodies[place]) if place in bodies else None  # type: ignore[type-var]  # one of the kinds
            for place, (kind, _) in enumerate(wanted)
        ]

    async def all(self, kind: type[Item]) -> Sequence[Item]:
        """See the port."""
        table = CATALOG_TABLES[kind].table
        rows = await self._transaction.fetch(sa.select(table.c.body).order_by(table.c.name))
        return [item_of(kind, row.body) for row in rows]

    async def count(self, kind: type[Item]) -> int:
        """See the port."""
        row = await self._transaction.first(
            sa.select(sa.func.count().label("n")).select_from(CATALOG_TABLES[kind].table)
        )
        return 0 if row is None else int(row.n)

    async def remove(self, kind: type[Item], name: str) -> None:
        """See the port."""
        async with self._transaction.savepoint():
            await self._remove(kind, name)

    async def lock(self, kind: type[CatalogItem]) -> None:
        """See the port."""
        await lock_to_change(self._transaction, CATALOG_TABLES[kind].table)

    async def set_labels(self, agent_id: str, labels: Mapping[str, str], *, version: int) -> None:
        """See the port."""
        text = msgspec.json.encode(dict(labels), order="sorted").decode()
        chosen = sa.update(AGENTS).where(AGENTS.c.agent_id == agent_id, AGENTS.c.version == version)
        changes = {"operator_labels": text, "version": version + 1, "stamp": self._transaction.stamp}
        if not await self._transaction.execute(chosen.values(changes)):
            expected, found = f"version {version}", "another version"
            raise StaleVersion(what="agent", name=agent_id, expected=expected, found=found)
        # The agent may have moved in the topology: decisions based on the earlier one are rejected.
        await self.mark(TOPOLOGY.name)

    async def _remove(self, kind: type, name: str) -> None:
        entry = CATALOG_TABLES[kind]
        if not _queryable(name):
            raise ObjectNotFound(what=entry.what, name=name)
        # First, so that this waits for concurrent writers of the table and sees their rows.
        await self.mark(entry.table.name)
        if kind is Group:
            await self.mark(USERS.name)
        await self._refuse_in_use(kind, name)
        try:
            removed = await self._transaction.execute(sa.delete(entry.table).where(entry.table.c.name == name))
        except sa.exc.IntegrityError as error:
            raise Conflict(f"{entry.what} {name!r} is in use") from error
        if not removed:
            raise ObjectNotFound(what=entry.what, name=name)
        try:
            await self._check_tree(kind)
        except (InvalidQueues, InvalidTopology) as error:
            raise Conflict(f"{entry.what} {name!r} is in use: {error.message}") from error

    async def _put(self, item: CatalogItem) -> None:
        entry = CATALOG_TABLES[type(item)]
        values: dict[str, Any] = {"body": msgspec.json.encode(to_plain(item)).decode()}
        for field, table, what in entry.refers:
            name = getattr(item, field)
            values[field] = name
            found = sa.select(table.c.name).where(table.c.name == name)
            if name is not None and await self._transaction.first(found) is None:
                raise ObjectNotFound(what=what, name=name)
            if table is POLICIES and name is not None:
                await self._touch_policy(name)
        for group in item.groups if isinstance(item, User) else ():
            await self.get(Group, group)
        if entry.table is POLICIES:
            values["changed_ms"] = self._transaction.now_ms
        await self._upsert(entry.table, {"name": entry.key(item)}, values)
        await self.mark(entry.table.name)

    async def _touch_policy(self, name: str) -> None:
        """Mark the policy as changed: owners that exceed a new limit keep what they hold."""
        update = sa.update(POLICIES).where(POLICIES.c.name == name)
        await self._transaction.execute(update.values(changed_ms=self._transaction.now_ms))

    async def _check_tree(self, kind: type) -> None:
        """Validate the tree of queues or HyperNodes; other kinds have none."""
        if kind is Queue:
            QueueTree(await self.all(Queue))
        for topology in await self.all(Topology) if kind is Topology else ():
            agents = sa.select(AGENTS.c.agent_id, AGENTS.c.labels, AGENTS.c.operator_labels)
            topology.tree({row.agent_id: labels_of(row) for row in await self._transaction.fetch(agents)})

    async def _refuse_in_use(self, kind: type, name: str) -> None:
        """Raises Conflict with the name of an object that refers to the item."""
        table, what = CATALOG_TABLES[kind].table, CATALOG_TABLES[kind].what
        for other, field in [
            (one, field) for one in CATALOG_TABLES.values() for field, to, _ in one.refers if to is table
        ]:
            users = sa.select(other.table.c.name).where(other.table.c[field] == name)
            row = await self._transaction.first(users.limit(1))
            if row is not None:
                raise Conflict(
                    f"{what} {name!r} is in use by {other.what} {row.name}",
                    hint=f"remove that {other.what}, or change it, first",
                )
        if kind is Queue and name != ROOT_QUEUE:
            waiting = sa.select(SESSIONS.c.session_id).where(
                SESSIONS.c.queue == name, SESSIONS.c.status.not_in([status.value for status in SESSION.terminal])
            )
            row = await self._transaction.first(waiting.limit(1))
            if row is not None:
                raise Conflict(f"queue {name!r} has sessions, {row.session_id} among them")
        if kind is Group:
            members = [user.name for user in await self.all(User) if name in user.groups]
            if members:
                raise Conflict(f"group {name!r} has members, {members[0]} among them")
        if kind is Queue or kind in _SCOPES:
            await self._refuse_named(kind, name)
        if kind is ScalingGroup:
            for table, what in ((AGENTS, "agents"), (SESSIONS, "sessions"), (DEPLOYMENTS, "deployments")):
                used = sa.select(table.c.scaling_group).where(table.c.scaling_group == name)
                if await self._transaction.first(used.limit(1)) is not None:
                    raise Conflict(f"scaling group {name!r} has {what}")

    async def _refuse_named(self, kind: type, name: str) -> None:
        """Raises Conflict if a scaling group is assigned to this owner, or has this default queue."""
        what = CATALOG_TABLES[kind].what
        for group in await self.all(ScalingGroup):
            named = (group.default_queue,) if kind is Queue else group.assigned_to
            if (name if kind is Queue else f"{_SCOPES[kind]}:{name}") in named:
                raise Conflict(f"{what} {name!r} is in use by scaling group {group.name}")

    async def mark(self, kind: str) -> None:
        """Record that one of the small tables has changed."""
        await self._upsert(CATALOG_MARKS, {"kind": kind}, {"stamp": self._transaction.stamp})

    async def _upsert(self, table: sa.Table, key: dict[str, Any], values: dict[str, Any]) -> None:
        insert = (postgresql.insert if self._transaction.postgresql else sqlite.insert)(table)
        statement = insert.values({**key, **values}).on_conflict_do_update(index_elements=list(key), set_=values)
        await self._transaction.execute(statement)


@lru_cache(maxsize=256)
def _find_statement(kinds: tuple[type, ...]) -> sa.CompoundSelect[Any]:
    """One statement for several items, each found by the index of its table."""
    arms = []
    for place, kind in enumerate(kinds):
        table = CATALOG_TABLES[kind].table
        number = sa.literal_column(str(place), sa.Integer).label("place")
        arms.append(sa.select(number, table.c.body).where(table.c.name == sa.bindparam(f"name_{place}", type_=sa.Text)))
    return sa.union_all(*arms)


def _queryable(name: str) -> str:
    """The name, or an empty string if it cannot be queried.

    PostgreSQL rejects some strings, and no item has an empty name.
    """
    return name if name.isprintable() else ""


def item_of(kind: type[Item], text: str) -> Item:
    """Decode a stored item."""
    item: Item = _item(kind, text)  # type: ignore[arg-type]  # a type is hashable
    return item


@lru_cache(maxsize=4096)
def _item(kind: Any, text: str) -> Any:
    # Items are immutable, so equal texts can share one item.
    return from_plain(kind, msgspec.json.decode(text), key=CATALOG_TABLES[kind].what)
