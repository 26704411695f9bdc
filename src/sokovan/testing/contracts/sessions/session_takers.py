"""Contract of `ports.repositories.sessions.Sessions`: takers of the evicted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from sokovan.domain.cluster.booking import Booking
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.kernel import KernelTrigger
from sokovan.domain.records import Change, KernelMove, SessionRecord
from sokovan.ports.repositories.sessions import Taker
from sokovan.ports.storage import UnitOfWork
from sokovan.testing.contracts import expect
from sokovan.testing.contracts.sessions.session_moves import placed
from sokovan.testing.stored_cluster import BY_COORDINATOR, StoredCluster

Check: TypeAlias = Callable[[StoredCluster], Awaitable[None]]


async def a_session_whose_taker_has_changed_is_skipped(cluster: StoredCluster) -> None:
    """The others move, those with the same taker together."""
    stopped, changed, waits = [await cluster.submit(cluster.new("s")) for _ in range(3)]
    kept, later, removed = [
        Booking(cluster.new("b"), from_ms=0, to_ms=10, agents=("a1",), users=("u",)) for _ in range(3)
    ]
    await cluster.put(kept, later, removed)
    await cluster.stop(stopped.session_id)
    await cluster.store.run(lambda unit: unit.sessions.save_checkpoints({changed.session_id: 1}))
    await cluster.put(replace(later, to_ms=11))
    await _remove_bookings(cluster, removed)
    for is_known in (False, True):
        victims = [await placed(cluster) for _ in range(8)]
        named: Sequence[Taker] = (stopped, changed, waits, waits, kept, kept, later, removed)
        takers = dict(zip(_ids(victims), named, strict=True))
        known = {one.session_id: one for one in victims} if is_known else None
        moves = [KernelMove(one.kernels[0], KernelTrigger.IMAGE_READY) for one in victims]
        after = await cluster.store.run(partial(_moved_for, [(BY_COORDINATOR, moves)], known, takers))
        expect(_ids(after) == sorted(_ids(victims[2:6])), f"{_ids(after)} moved, of {_ids(victims)}")
        for victim in (*victims[:2], *victims[6:]):
            expect(await cluster.session(victim.session_id) == victim, "a session whose taker changed was moved")
    expect(await cluster.session(waits.session_id) == waits, "a taker was written")
    await _remove_bookings(cluster, kept, later)


async def _remove_bookings(cluster: StoredCluster, *bookings: Booking) -> None:
    async def work(unit: UnitOfWork) -> None:
        for one in bookings:
            await unit.catalog.remove(Booking, one.name)

    await cluster.store.run(work)


async def _moved_for(
    steps: Sequence[tuple[Change, Sequence[KernelMove]]],
    known: Mapping[SessionId, SessionRecord] | None,
    takers: Mapping[SessionId, Taker],
    unit: UnitOfWork,
) -> Sequence[SessionRecord]:
    return await unit.sessions.move_in_steps(steps, known=known, takers=takers)


def _ids(sessions: Sequence[SessionRecord]) -> list[SessionId]:
    return [one.session_id for one in sessions]


async def a_taker_that_was_removed_has_changed(cluster: StoredCluster) -> None:
    """As one of which nothing was ever stored."""
    victim, never = await placed(cluster), await cluster.submit(cluster.new("s"))
    never = replace(never, session_id=SessionId(cluster.new("s")))
    moves = [KernelMove(victim.kernels[0], KernelTrigger.IMAGE_READY)]
    after = await cluster.store.run(partial(_moved_for, [(BY_COORDINATOR, moves)], None, {victim.session_id: never}))
    expect(list(after) == [], "a session was moved for a taker that does not exist")


CHECKS: tuple[Check, ...] = (
    a_session_whose_taker_has_changed_is_skipped,
    a_taker_that_was_removed_has_changed,
)
