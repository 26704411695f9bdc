"""The store on SQL: units of work, tried again until their outcome is known."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Generic, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from sokovan.adapters.sql import retention
from sokovan.adapters.sql.database import Database, lost_connection, wants_another_try
from sokovan.adapters.sql.group_commit import GroupCommit
from sokovan.adapters.sql.outbox import SqlOutbox
from sokovan.adapters.sql.schema.columns import server_time
from sokovan.adapters.sql.schema.tables import COMMITS
from sokovan.adapters.sql.transaction import Transaction
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.domain.errors import OutcomeUnknown, StoreUnavailable
from sokovan.ports.environment import IdSource
from sokovan.ports.storage import BatchedWork, Fence

T = TypeVar("T")
R = TypeVar("R")

# So many items share a transaction at most: everybody else waits for its end.
TOGETHER_MAX = 8


@dataclass(frozen=True, slots=True)
class TransactionRetry:
    """How long a unit of work is tried again before the database counts as away."""

    give_up_s: float = 10.0
    pause_first_s: float = 0.01
    pause_max_s: float = 0.5


Work = Callable[[SqlUnitOfWork], Awaitable[R]]


class SqlStore:
    """Facts on SQLite or PostgreSQL."""

    def __init__(self, database: Database, *, ids: IdSource, retry: TransactionRetry | None = None) -> None:
        self.database = database
        self._ids = ids
        self._retry = retry or TransactionRetry()
        self.outbox = SqlOutbox(database)
        self._groups: dict[BatchedWork[Any, Any], GroupCommit[None, Any, Any]] = {}

    async def run(self, work: Work[R], *, fence: Fence | None = None) -> R:
        """See the port."""
        return await self.run_sql(work, fence=fence)

    async def run_sql(self, work: Work[R], *, fence: Fence | None = None) -> R:
        """Like `run`, for work that needs the transaction itself."""
        attempt = _Attempt(work, fence, self._ids.new("commit"))
        try:
            return await self._until_known(lambda: attempt.once(self.database))
        except StoreUnavailable as error:
            if attempt.committing:
                raise OutcomeUnknown(f"{error.message}, during a commit") from error
            raise

    async def run_batched(self, work: BatchedWork[T, R], item: T) -> R:
        """See the port."""
        # For each kind of work one line: who enrols does not wait for those who submit.
        if work not in self._groups:
            self._groups[work] = GroupCommit(partial(self._run_together, work), at_most=TOGETHER_MAX)
        result: R | Exception = await self._groups[work].submit(None, (item,))
        if isinstance(result, Exception):
            raise result
        return result

    async def read(self, work: Work[R]) -> R:
        """See the port."""
        return await self._read(work, at_hand=True)

    async def read_apart(self, work: Work[R]) -> R:
        """Like `read`, for statements that take long: others go on meanwhile."""
        return await self._read(work, at_hand=False)

    async def _read(self, work: Work[R], *, at_hand: bool) -> R:
        async def once() -> R:
            async with self.database.reading(at_hand=at_hand) as connection:
                now = await self.database.now_ms(connection)
                return await work(SqlUnitOfWork(_transaction(self.database, connection, now_ms=now)))

        return await self._until_known(once)

    async def prune(self, *, older_than_s: float) -> int:
        """See the port. Nobody asks for a commit when the tries for it have ended."""
        return await retention.prune(self.run_sql, older_than_s=older_than_s)

    async def close(self) -> None:
        """See the port."""
        await self.database.close()

    async def _run_together(self, work: BatchedWork[Any, Any], _: None, given: Sequence[Sequence[Any]]) -> list[Any]:
        items = [item for (item,) in given]
        at_fault = False

        async def all_of_them(unit: SqlUnitOfWork) -> list[Any]:
            nonlocal at_fault
            at_fault = True
            results = list(await work(unit, items))
            at_fault = False
            return results

        try:
            return await self.run(all_of_them)
        except Exception as error:  # noqa: BLE001  # whoever asked is told, whatever it is
            # Only if the work itself failed, one of them is at fault, and the others may try without it. What fails
            # afterwards, during the commit, is true of all of them, and may have happened: nothing is done again.
            if not at_fault or len(items) == 1 or isinstance(error, StoreUnavailable):
                return [error] * len(items)
        return [(await self._run_together(work, None, [(item,)]))[0] for item in items]

    async def _until_known(self, once: Callable[[], Awaitable[R]]) -> R:
        """Try until the outcome is known, or the database has been away for too long."""
        clock, rule = self.database.clock, self._retry
        deadline = clock.monotonic_ms() + int(rule.give_up_s * 1000)
        pause = rule.pause_first_s
        while True:
            try:
                return await once()
            except (SQLAlchemyError, OSError, TimeoutError) as error:
                again = wants_another_try(error) or lost_connection(error)
                if not again:
                    raise
                if clock.monotonic_ms() >= deadline:
                    raise StoreUnavailable(f"the database did not answer for {rule.give_up_s:g} s") from error
            # Jitter: two who collided must not collide again at the same moment.
            await clock.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  # it spreads tries in time, and keeps no secret
            pause = min(pause * 2, rule.pause_max_s)


class _Attempt(Generic[R]):
    """One unit of work over all its tries.

    The first statement of each try takes the unit's own id. If an earlier try has
    committed without our hearing of it, that id is taken: the result we have from
    that try stands, and the work is not done twice. If it is still committing, the
    statement waits until that is decided.
    """

    def __init__(self, work: Work[R], fence: Fence | None, commit_id: str) -> None:
        self._work, self._fence, self._commit_id = work, fence, commit_id
        self._results: list[R] = []
        self.committing = False  # a commit was sent, and no later try has learnt what became of it

    async def once(self, database: Database) -> R:
        async with database.writing() as connection:
            transaction = await _begin(database, connection, self._commit_id)
            if transaction is None:
                return self._results[-1]
            self.committing = False
            transaction.fence = self._fence
            await transaction.check_fence()
            result = await self._work(SqlUnitOfWork(transaction))
            await transaction.write_outbox()
            self._results.append(result)
            self.committing = True
            await connection.commit()
            return result


async def _begin(database: Database, connection: AsyncConnection, commit_id: str) -> Transaction | None:
    """Take the id and learn time and mark; None if the id was taken by an earlier try."""
    bound = {"the_id": commit_id, **({} if database.is_postgresql else {"the_now_ms": database.clock.now_ms()})}
    row = (await connection.execute(_take_id(database.is_postgresql), bound)).first()
    if row is None:
        return None
    mark = row.stamp if database.is_postgresql else row.sequence
    return _transaction(database, connection, now_ms=row.at_ms, stamp=mark, number=row.sequence)


@cache
def _take_id(is_postgresql: bool) -> Any:  # noqa: FBT001  # a key of the cache
    insert = (postgresql.insert if is_postgresql else sqlite.insert)(COMMITS)
    now = server_time() if is_postgresql else sa.bindparam("the_now_ms")
    # The mark of a row: PostgreSQL's own number of the transaction; on SQLite, where writers take turns, its place.
    stamp = sa.cast(sa.cast(sa.func.pg_current_xact_id(), sa.Text), sa.BigInteger).label("stamp")
    return (
        insert.values(commit_id=sa.bindparam("the_id"), at_ms=now)
        .on_conflict_do_nothing()
        .returning(COMMITS.c.at_ms, COMMITS.c.sequence, *([stamp] if is_postgresql else []))
    )


def _transaction(
    database: Database, connection: AsyncConnection, *, now_ms: int, stamp: int = 0, number: int = 0
) -> Transaction:
    return Transaction(connection, postgresql=database.is_postgresql, now_ms=now_ms, stamp=stamp, number=number)
