"""The store on SQL: runs units of work and retries until the outcome is known."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from sokovan.adapters.sql import retention
from sokovan.adapters.sql.commit_ids import begin, transaction_of
from sokovan.adapters.sql.connections.errors import (
    is_connection_loss,
    is_contention,
    is_full_disk,
    is_refused_commit,
    is_retryable,
)
from sokovan.adapters.sql.database import Database
from sokovan.adapters.sql.group_commit import GroupCommit
from sokovan.adapters.sql.outbox import SqlOutbox
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.domain.errors import OutcomeUnknown, StoreUnavailable
from sokovan.ports.environment import IdSource
from sokovan.ports.storage import BatchedWork, Fence, StoreRetention

T = TypeVar("T")
R = TypeVar("R")

# Items that share a transaction at most; all other writers wait for its end.
TOGETHER_MAX = 32


@dataclass(frozen=True, slots=True)
class TransactionRetry:
    """Retry limits of a unit of work, until the store counts as unavailable."""

    give_up_s: float = 10.0
    # A full disk is not full for a moment only.
    full_disk_s: float = 1.0
    pause_first_s: float = 0.01
    pause_max_s: float = 0.5


Work = Callable[[SqlUnitOfWork], Awaitable[R]]


class _Breaker:
    """Whether reads or writes work. While they do not, one attempt at a time is a probe.

    All others fail at once, instead of each waiting until it gives up. A unit of work that is
    given up because others hold its locks says nothing about the rest. `report` is called
    with the cause of a failure, and with an empty text once they work again.
    """

    def __init__(self, what: str, report: Callable[[str], None]) -> None:
        self.cause = ""
        self._what, self._report, self._probing = what, report, False

    async def probe(self, once: Callable[[], Awaitable[R]]) -> R:
        """Try once. Raises StoreUnavailable."""
        if self._probing:
            raise StoreUnavailable(f"{self._what} fail: {self.cause}")
        self._probing = True
        try:
            result = await once()
        except (SQLAlchemyError, OSError, TimeoutError) as error:
            if not _is_transient(error):
                raise
            if is_contention(error):
                self._close()
                raise _busy(error) from error
            raise StoreUnavailable(f"{self._what} fail: {self.cause}") from error
        finally:
            self._probing = False
        self._close()
        return result

    def open(self, error: BaseException) -> None:
        """Note that an attempt was given up."""
        if not self.cause:
            self.cause = _cause_of(error)
            self._report(self.cause)

    def _close(self) -> None:
        self.cause = ""
        self._report("")


def _busy(error: BaseException) -> StoreUnavailable:
    """The error of one unit of work that others are in the way of; the database works."""
    return StoreUnavailable(f"the database is busy: {_cause_of(error)}", hint="others hold what it needs: retry later")


def _cause_of(error: BaseException) -> str:
    """The first line of the driver's message, without the statement."""
    original = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    return (str(original).strip().splitlines() or [type(original).__name__])[0][:200]


def _is_transient(error: BaseException) -> bool:
    return is_retryable(error) or is_connection_loss(error)


class SqlStore:
    """The store on SQLite or PostgreSQL.

    `report` is called with the cause if writes fail, and with an empty text afterwards.
    """

    def __init__(
        self,
        database: Database,
        *,
        ids: IdSource,
        retry: TransactionRetry | None = None,
        report: Callable[[str], None] = lambda _cause: None,
    ) -> None:
        self.database = database
        self._ids = ids
        self._retry = retry or TransactionRetry()
        self._reads, self._writes = _Breaker("reads", lambda _cause: None), _Breaker("writes", report)
        self.outbox = SqlOutbox(database)
        self._groups: dict[BatchedWork[Any, Any], GroupCommit[None, Any, Any]] = {}

    async def run(self, work: Work[R], *, fence: Fence | None = None) -> R:
        """See the port."""
        return await self.run_sql(work, fence=fence)

    async def run_sql(self, work: Work[R], *, fence: Fence | None = None) -> R:
        """Like `run`, for work that needs the transaction itself."""
        attempt = _Attempt(work, fence, self._ids.new("commit"))
        try:
            return await self._retry_until_known(lambda: attempt.once(self.database), self._writes)
        except StoreUnavailable as error:
            if attempt.committing:
                raise OutcomeUnknown(f"{error.message}, during a commit") from error
            raise

    async def run_batched(self, work: BatchedWork[T, R], item: T) -> R:
        """See the port."""
        # One queue per kind of work, so that enrolments do not wait for submissions.
        if work not in self._groups:
            self._groups[work] = GroupCommit(partial(self._run_together, work), at_most=TOGETHER_MAX)
        result: R | Exception = await self._groups[work].submit(None, (item,))
        if isinstance(result, Exception):
            raise result
        return result

    async def read(self, work: Work[R]) -> R:
        """See the port."""
        return await self._read(work, inline=True)

    async def read_long(self, work: Work[R]) -> R:
        """Like `read`, for long statements: they do not block the event loop."""
        return await self._read(work, inline=False)

    async def _read(self, work: Work[R], *, inline: bool) -> R:
        async def once() -> R:
            async with self.database.reading(inline=inline) as connection:
                now = await self.database.now_ms(connection)
                return await work(SqlUnitOfWork(transaction_of(self.database, connection, now_ms=now)))

        return await self._retry_until_known(once, self._reads)

    async def prune(self, *, older_than_s: float) -> int:
        """See the port. A commit id is not needed once its retries have ended."""
        return await retention.prune(self.run_sql, older_than_s=older_than_s)

    async def expire(self, keep: StoreRetention) -> bool:
        """See the port."""
        return await retention.expire(self.run_sql, self.read_long, keep)

    async def close(self) -> None:
        """See the port."""
        await self.database.close()

    async def _run_together(self, work: BatchedWork[Any, Any], _: None, given: Sequence[Sequence[Any]]) -> list[Any]:
        items = [item for (item,) in given]
        work_failed = False

        async def run_all(unit: SqlUnitOfWork) -> list[Any]:
            nonlocal work_failed
            work_failed = True
            results = list(await work(unit, items))
            work_failed = False
            return results

        try:
            return await self.run(run_all)
        except Exception as error:  # noqa: BLE001  # every error is passed to its callers
            # If the work itself failed, one item caused it, and each is run alone. A failure of the commit concerns all
            # items, and the commit may have happened: nothing is repeated.
            if not work_failed or len(items) == 1 or isinstance(error, StoreUnavailable):
                return [error] * len(items)
        return [(await self._run_together(work, None, [(item,)]))[0] for item in items]

    async def _retry_until_known(self, once: Callable[[], Awaitable[R]], breaker: _Breaker) -> R:
        """Retry until the outcome is known, or the database was unavailable for too long."""
        if breaker.cause:
            return await breaker.probe(once)
        clock, rule = self.database.clock, self._retry
        begun = clock.monotonic_ms()
        pause = rule.pause_first_s
        while True:
            try:
                return await once()
            except (SQLAlchemyError, OSError, TimeoutError) as error:
                if not _is_transient(error):
                    raise
                give_up_s = min(rule.full_disk_s, rule.give_up_s) if is_full_disk(error) else rule.give_up_s
                if clock.monotonic_ms() >= begun + int(give_up_s * 1000):
                    if is_contention(error):
                        raise _busy(error) from error
                    breaker.open(error)
                    cause = breaker.cause if is_full_disk(error) else "the database did not answer"
                    raise StoreUnavailable(f"{cause} for {give_up_s:g} s") from error
            # Jitter: two colliding transactions must not collide again.
            await clock.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  # jitter, not a secret
            pause = min(pause * 2, rule.pause_max_s)


class _Attempt(Generic[R]):
    """One unit of work over all its attempts.

    The first statement of each attempt inserts the unit's commit id. If an earlier
    attempt committed although its response was lost, the id exists: its result is
    returned, and the work is not repeated. If that commit is still in progress, the
    statement waits for it.
    """

    def __init__(self, work: Work[R], fence: Fence | None, commit_id: str) -> None:
        self._work, self._fence, self._commit_id = work, fence, commit_id
        self._results: list[R] = []
        self.committing = False  # a commit was sent, and its outcome is unknown

    async def once(self, database: Database) -> R:
        async with database.writing() as connection:
            transaction = await begin(database, connection, self._commit_id)
            if transaction is None:
                return self._results[-1]
            self.committing = False
            transaction.fence = self._fence
            await transaction.check_fence()
            result = await self._work(SqlUnitOfWork(transaction))
            await transaction.write_outbox()
            self._results.append(result)
            self.committing = True
            try:
                await connection.commit()
            except DBAPIError as error:
                self.committing = database.is_postgresql or not is_refused_commit(error)
                raise
            return result
