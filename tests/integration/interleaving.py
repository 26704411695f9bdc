"""Every order in which the statements of two actors can reach a real server.

Each actor runs real code on a store of its own. Before each statement, and before
its commit, it waits for its turn. The scheduler gives turns, sees who then waits
for a lock of the other, and walks the tree of choices until every order was run:
an actor that waits for a lock has no turn to give, so orders in which it would
have gone first do not exist.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import Connection

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.sql.store import SqlStore
from sokovan.testing.stored_cluster import StoredCluster

CLOCK = SystemClock()
LIMIT_S = 180.0
# How long a statement may take before the server is asked whether it waits for a lock. It only saves questions.
GLANCE_S = 0.015

Act = Callable[[StoredCluster], Awaitable[object]]


class Actor:
    """One store whose statements wait for their turn, unless they are private."""

    def __init__(self, store: SqlStore, number: int, private: Collection[str]) -> None:
        self.cluster, self.number, self._private = StoredCluster(store), number, tuple(private)
        self.pid = 0
        self.statement: str | None = None
        self.stopped = asyncio.Event()
        self._turn = asyncio.Event()
        self._task: asyncio.Task[object] | None = None
        engine = store.database.engine.sync_engine
        event.listen(engine, "before_cursor_execute", self._before_statement)
        event.listen(engine, "commit", lambda connection: self._wait(connection, "COMMIT"))
        event.listen(engine, "rollback", lambda connection: self._wait(connection, "ROLLBACK"))

    async def connect(self) -> None:
        """Learn which process of the server serves this actor; there is one, the pool is of one."""
        async with self.cluster.store.database.reading() as connection:
            self.pid = (await connection.execute(sa.text("SELECT pg_backend_pid()"))).scalar_one()

    def begin(self, act: Act) -> None:
        """Run up to the first statement."""
        self.stopped.clear()
        self._task = asyncio.ensure_future(self._acting(act))

    @property
    def done(self) -> bool:
        """Whether everything was said and committed."""
        return self._task is not None and self._task.done()

    def outcome(self) -> object:
        """The result of the act, or the error that it ended with."""
        assert self._task is not None
        return self._task.result()

    def go(self) -> None:
        """Let the statement that waits go to the server."""
        self.stopped.clear()
        self.statement = None
        self._turn.set()

    async def _acting(self, act: Act) -> object:
        try:
            return await act(self.cluster)
        except Exception as error:  # noqa: BLE001  # an error is an outcome too, and compared as one
            return error
        finally:
            self.stopped.set()

    def _before_statement(self, connection: Connection, _cursor: object, statement: str, *_rest: object) -> None:
        self._wait(connection, statement)

    def _wait(self, connection: Connection, statement: str) -> None:
        if self._task is None or self._task.done() or any(words in statement for words in self._private):
            return
        driver: Any = connection.connection.dbapi_connection
        driver.run_async(lambda _: self._until_turn(statement))

    async def _until_turn(self, statement: str) -> None:
        self.statement = statement
        self.stopped.set()
        await self._turn.wait()
        self._turn.clear()


@dataclass
class Order:
    """One order: whose turn it was at each step, and where there was a choice."""

    turns: list[int] = field(default_factory=list)
    statements: tuple[list[str], list[str]] = field(default_factory=lambda: ([], []))
    choices: list[int] = field(default_factory=list)
    # Who had to wait for the other, and at which of its statements.
    waited: list[tuple[int, int]] = field(default_factory=list)


class Interleaving:
    """Two actors, and the server's word on who waits for whom.

    A statement with one of the `private` words in it goes with the one before it: it
    touches nothing that the other actor touches, so where it stands changes nothing.
    """

    def __init__(self, first: SqlStore, second: SqlStore, watcher: SqlStore, *, private: Collection[str] = ()) -> None:
        self.actors = (Actor(first, 0, private), Actor(second, 1, private))
        self._watcher = watcher

    async def connect(self) -> None:
        """Before the first order."""
        for actor in self.actors:
            await actor.connect()

    async def run(self, acts: Sequence[Act], choices: Sequence[int]) -> Order:
        """One order: the given choices, and from there on the first actor whenever it can."""
        order, waiting = Order(), set[int]()
        for actor, act in zip(self.actors, acts, strict=True):
            actor.begin(act)
            await asyncio.wait_for(actor.stopped.wait(), LIMIT_S)
        while ready := [actor for actor in self.actors if not actor.done and actor.number not in waiting]:
            chosen = ready[0]
            if len(ready) > 1:
                place = len(order.choices)
                chosen = ready[choices[place] if place < len(choices) else 0]
                order.choices.append(chosen.number)
            await self._step(chosen, order, waiting)
        assert not waiting, f"both actors wait: {order.waited}"
        return order

    async def _step(self, actor: Actor, order: Order, waiting: set[int]) -> None:
        statement = str(actor.statement)
        order.turns.append(actor.number)
        order.statements[actor.number].append(statement)
        actor.go()
        if not await self._stops(actor):
            order.waited.append((actor.number, len(order.statements[actor.number]) - 1))
            waiting.add(actor.number)
        elif waiting and (actor.done or statement in {"COMMIT", "ROLLBACK"}):
            other = self.actors[1 - actor.number]
            await asyncio.wait_for(other.stopped.wait(), LIMIT_S)
            waiting.clear()

    async def _stops(self, actor: Actor) -> bool:
        """Whether the actor comes to its next statement; False if it waits for a lock."""
        deadline = CLOCK.monotonic_ms() + int(LIMIT_S * 1000)
        while CLOCK.monotonic_ms() < deadline:
            try:
                await asyncio.wait_for(actor.stopped.wait(), GLANCE_S)
            except TimeoutError:
                if await self._is_blocked(actor):
                    return False
            else:
                return True
        raise AssertionError(f"a statement neither ends nor waits for a lock: {actor.statement}")

    async def _is_blocked(self, actor: Actor) -> bool:
        question = sa.text("SELECT cardinality(pg_blocking_pids(:pid)) > 0")
        async with self._watcher.database.reading() as connection:
            return bool((await connection.execute(question, {"pid": actor.pid})).scalar_one())


def next_choices(choices: Sequence[int]) -> list[int] | None:
    """The choices of the next order in the walk of the tree; None after the last one."""
    turned = len(choices)
    while turned and choices[turned - 1] == 1:
        turned -= 1
    return None if turned == 0 else [*choices[: turned - 1], 1]


def orders_of(first: tuple[int, int], second: tuple[int, int]) -> int:
    """Count the orders of two sequences, each as (steps before the lock they fight for, all steps).

    The step after `before` takes the lock. The second actor waits there until the
    other has ended, and only then goes on, alone.
    """

    def count(done: tuple[int, int], holder: int | None, waits: bool) -> int:
        lengths = (first, second)
        ready = [actor for actor in (0, 1) if done[actor] < lengths[actor][1] and not (waits and actor != holder)]
        if not ready:
            return 1
        if holder is not None and done[holder] == lengths[holder][1]:
            return 1
        total = 0
        for actor in ready:
            takes = done[actor] == lengths[actor][0]
            if takes and holder is not None:
                total += count(done, holder, True)
                continue
            ahead = (done[0] + (actor == 0), done[1] + (actor == 1))
            total += count(ahead, actor if takes else holder, waits)
        return total

    return count((0, 0), None, False)
