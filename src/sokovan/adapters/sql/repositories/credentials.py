"""Credentials: digests of tokens, one per keypair."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError

from sokovan.adapters.sql.repositories.catalog import item_of
from sokovan.adapters.sql.rows import TEXT
from sokovan.adapters.sql.schema.tables import CREDENTIALS, KEYPAIRS, USERS
from sokovan.adapters.sql.transaction import Transaction, bound_ids, ids_table
from sokovan.domain.errors import Conflict, ObjectNotFound
from sokovan.domain.ids import AccessKey, is_name
from sokovan.domain.owners.tenancy import Keypair, User
from sokovan.ports.repositories.credentials import Principal


class SqlCredentials:
    """Credentials on SQL. Digests are never returned, nor quoted in errors."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def put(self, access_key: AccessKey, digest: str) -> None:
        """See the port."""
        # Locked, so that the keypair cannot be removed before the commit.
        known = sa.select(KEYPAIRS.c.name).where(KEYPAIRS.c.name == access_key)
        locked = known.with_for_update(read=True, key_share=True)
        if not is_name(access_key) or await self._transaction.first(locked) is None:
            raise ObjectNotFound(what="key", name=access_key)
        insert = (postgresql.insert if self._transaction.postgresql else sqlite.insert)(CREDENTIALS)
        values = {"digest": digest, "created_ms": self._transaction.now_ms}
        statement = insert.values(access_key=access_key, **values)
        try:
            async with self._transaction.savepoint():
                await self._transaction.execute(
                    statement.on_conflict_do_update(index_elements=["access_key"], set_=values)
                )
        except IntegrityError as error:
            # Without its cause, because the database's message may quote the digest.
            del error
            raise Conflict("another keypair has this digest", hint="make a new token") from None

    async def find(self, digest: str) -> Principal | None:
        """See the port."""
        row = await self._transaction.first(_find(), {"the_digest": digest})
        if row is None:
            return None
        keypair = item_of(Keypair, row.keypair)
        return Principal(keypair, item_of(User, row.user)) if keypair.active else None

    async def remove(self, access_keys: Sequence[AccessKey]) -> None:
        """See the port."""
        wanted = sa.select(ids_table(self._transaction.postgresql).c.id)
        statement = sa.delete(CREDENTIALS).where(CREDENTIALS.c.access_key.in_(wanted))
        await self._transaction.execute(statement, bound_ids(self._transaction, access_keys))


@cache
def _find() -> sa.Select[Any]:
    return (
        sa.select(KEYPAIRS.c.body.label("keypair"), USERS.c.body.label("user"))
        .select_from(CREDENTIALS)
        .join(KEYPAIRS, KEYPAIRS.c.name == CREDENTIALS.c.access_key)
        .join(USERS, USERS.c.name == KEYPAIRS.c.user)
        .where(CREDENTIALS.c.digest == sa.bindparam("the_digest", type_=TEXT))
    )
