"""Contract of `ports.storage`: Store, UnitOfWork and Outbox.

Behaviour under broken connections (retries, unknown outcomes) is not covered here:
each adapter has its own way to break connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from sokovan.domain.cluster.topology import HyperNode
from sokovan.domain.cluster.topology_rules import Topology
from sokovan.domain.errors import Conflict, FencedOut, InvalidTopology, ObjectNotFound
from sokovan.domain.events import AgentEnrolled, Event, KernelMoved, NoticeIssued, SessionMoved
from sokovan.domain.ids import SessionId
from sokovan.ports.leases import Lease
from sokovan.ports.repositories.sessions import RequestKey
from sokovan.ports.repositories.verdicts import StoredVerdict
from sokovan.ports.storage import Fence, StoreRetention, UnitOfWork
from sokovan.testing.clock import until
from sokovan.testing.contracts import expect
from sokovan.testing.stored_cluster import BY_COORDINATOR, BY_USER, StoredCluster, refusal, session_spec

Check: TypeAlias = Callable[[StoredCluster], Awaitable[None]]
AT_ONCE = 1000
# Time for a concurrent reader or writer to show a violation.
A_MOMENT_S = 0.1
SHORT_S = 0.3


class Broken(Exception):
    """Raised by the work of a check."""


def notice(number: int) -> Event:
    """A distinct event."""
    return NoticeIssued(at_ms=number, topic="contract", about="test")


async def published(cluster: StoredCluster, *, limit: int = AT_ONCE) -> list[Event]:
    """Publish and return all pending events."""
    events: list[Event] = []

    async def take(batch: Sequence[Event]) -> None:
        events.extend(batch)

    await cluster.store.outbox.publish_pending(take, limit=limit)
    return events


async def emitted(cluster: StoredCluster, events: Sequence[Event]) -> None:
    """Emit events in one unit of work."""
    await cluster.store.run(lambda unit: unit.emit(events))


async def emitted_apart(cluster: StoredCluster, count: int) -> None:
    """Emit notices, each in its own unit of work."""
    for number in range(count):
        await emitted(cluster, [notice(number)])


async def is_there(cluster: StoredCluster, name: str) -> bool:
    """Whether a session of this name is stored."""
    try:
        await cluster.session(name)
    except ObjectNotFound:
        return False
    return True


async def _taken_over(cluster: StoredCluster) -> tuple[Lease, Lease]:
    """The lease of a replaced leader, and that of its successor."""
    name = cluster.new("lease")
    old = await cluster.leases.acquire(name, holder="m1", ttl_s=60)
    if old is None:
        raise AssertionError("a free lease was refused")
    await cluster.leases.release(old)
    new = await cluster.leases.acquire(name, holder="m2", ttl_s=60)
    if new is None:
        raise AssertionError("a lease that was released was refused")
    return old, new


async def a_unit_of_work_returns_the_result_of_its_work(cluster: StoredCluster) -> None:
    """For `run` and `read`."""

    async def work(unit: UnitOfWork) -> tuple[str, int]:
        return "given", unit.now_ms

    expect((await cluster.store.run(work))[0] == "given", "run lost what its work gave")
    expect((await cluster.store.read(work))[0] == "given", "read lost what its work gave")


async def a_unit_sees_its_own_writes(cluster: StoredCluster) -> None:
    """Before its end."""
    name = cluster.new("s")

    async def work(unit: UnitOfWork) -> str:
        await unit.sessions.enqueue(session_spec(name), BY_USER)
        return (await unit.sessions.get(SessionId(name))).session_id

    expect(await cluster.store.run(work) == name, "a unit of work does not see its own writes")


async def a_unit_is_invisible_before_its_end(cluster: StoredCluster) -> None:
    """A concurrent reader sees the state before, or waits."""
    name = cluster.new("s")

    async def work(unit: UnitOfWork) -> asyncio.Future[bool]:
        await unit.sessions.enqueue(session_spec(name), BY_USER)
        reader = asyncio.ensure_future(is_there(cluster, name))
        await asyncio.wait([reader], timeout=A_MOMENT_S)
        expect(not reader.done() or not reader.result(), "a reader saw what was not committed")
        return reader

    await (await cluster.store.run(work))
    expect(await is_there(cluster, name), "committed rows are missing")


async def a_read_sees_one_state(cluster: StoredCluster) -> None:
    """Regardless of concurrent commits."""
    name = cluster.new("s")

    async def work(unit: UnitOfWork) -> tuple[bool, bool, asyncio.Future[object]]:
        before = await _listed(unit, name)
        writer: asyncio.Future[object] = asyncio.ensure_future(cluster.submit(name))
        await asyncio.wait([writer], timeout=A_MOMENT_S)
        return before, await _listed(unit, name), writer

    before, after, writer = await cluster.store.read(work)
    await writer
    expect((before, after) == (False, False), "a read saw two states of the store")


async def _listed(unit: UnitOfWork, name: str) -> bool:
    try:
        await unit.sessions.get(SessionId(name))
    except ObjectNotFound:
        return False
    return True


async def a_failed_unit_leaves_nothing(cluster: StoredCluster) -> None:
    """No row and no event; its error is raised unchanged."""
    name = cluster.new("s")
    await published(cluster)

    async def work(unit: UnitOfWork) -> None:
        await unit.sessions.enqueue(session_spec(name), BY_USER)
        await unit.emit([notice(1)])
        raise Broken

    await refusal(cluster.store.run(work), Broken)
    expect(not await is_there(cluster, name), "a unit of work that failed left a row")
    expect(not await published(cluster), "a failed unit of work published an event")


async def a_cancelled_unit_leaves_nothing(cluster: StoredCluster) -> None:
    """The store remains usable."""
    name, begun = cluster.new("s"), asyncio.Event()

    async def work(unit: UnitOfWork) -> None:
        await unit.sessions.enqueue(session_spec(name), BY_USER)
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.ensure_future(cluster.store.run(work))
    await begun.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    expect(not await is_there(cluster, name), "a unit of work that was cancelled left a row")
    await cluster.submit(name)


async def a_caught_refusal_does_not_affect_the_rest(cluster: StoredCluster) -> None:
    """The refused part leaves nothing; the rest is committed."""
    first, second, taken, rack = (cluster.new(kind) for kind in ("s", "s", "s", "rack"))
    await cluster.submit(taken)
    half = replace(session_spec(taken), session_id=SessionId(cluster.new("s")))

    async def work(unit: UnitOfWork) -> None:
        await unit.sessions.enqueue(session_spec(first), BY_USER)
        await refusal(unit.sessions.enqueue(half, BY_USER), Conflict)
        await refusal(
            unit.catalog.put(Topology(hypernodes=(HyperNode(rack, 1, (cluster.new("a"),)),))), InvalidTopology
        )
        await unit.sessions.enqueue(session_spec(second), BY_USER)

    await cluster.store.run(work)
    there = [await is_there(cluster, name) for name in (first, second, half.session_id)]
    expect(there == [True, True, False], f"of the first, the last and the refused session are there: {there}")
    racks = await cluster.store.read(lambda unit: unit.catalog.all(Topology))
    expect(rack not in {node.name for one in racks for node in one.hypernodes}, "a HyperNode that was refused is there")


async def the_time_of_a_unit_is_constant(cluster: StoredCluster) -> None:
    """It is the store's time; a later unit has no earlier one."""

    async def work(unit: UnitOfWork) -> int:
        first = unit.now_ms
        await unit.fleet.all()
        expect(unit.now_ms == first, "time passed inside a unit of work")
        return first

    times = [await cluster.store.run(work), await cluster.store.read(work), await cluster.store.run(work)]
    expect(times == sorted(times), f"the store's time went back: {times}")
    record = await cluster.submit(cluster.new("s"))
    expect(record.submitted_ms >= times[-1], "a write has another time than the store's")


async def concurrent_units_each_happen_once(cluster: StoredCluster) -> None:
    """All are stored afterwards."""
    names = [cluster.new("s") for _ in range(20)]
    await asyncio.gather(*(cluster.submit(name) for name in names))
    there = [await is_there(cluster, name) for name in names]
    expect(all(there), "a unit of work was lost among others")


async def batched_items_each_happen_once(cluster: StoredCluster) -> None:
    """Each caller gets its own result, in few transactions."""
    names, calls = [cluster.new("s") for _ in range(40)], []

    async def work(unit: UnitOfWork, some: Sequence[str]) -> list[str | Exception]:
        calls.append(len(some))
        for name in some:
            await unit.sessions.enqueue(session_spec(name), BY_USER)
        return [f"stored {name}" for name in some]

    given = await asyncio.gather(*(cluster.store.run_batched(work, name) for name in names))
    expect(given == [f"stored {name}" for name in names], "a result went to another caller")
    expect(all([await is_there(cluster, name) for name in names]), "an item was lost among others")
    expect(len(calls) < len(names), f"forty items took {len(calls)} transactions")


async def a_refusal_of_a_batched_item_is_raised_for_it_alone(cluster: StoredCluster) -> None:
    """Also if the work raises: then each item is run alone."""
    names = [cluster.new("s") for _ in range(6)]

    async def work(unit: UnitOfWork, some: Sequence[str]) -> list[str | Exception]:
        for name in some:
            await unit.sessions.enqueue(session_spec(name), BY_USER)
        if names[1] in some:
            raise Broken
        return [Conflict("no") if name == names[2] else name for name in some]

    given = await asyncio.gather(*(cluster.store.run_batched(work, name) for name in names), return_exceptions=True)
    kinds = [type(one) for one in given]
    expect(kinds == [str, Broken, Conflict, str, str, str], f"the results are {kinds}")
    there = [await is_there(cluster, name) for name in names]
    expect(there == [True, False, True, True, True, True], f"what is there is {there}")


async def the_history_records_the_fence_of_the_leader(cluster: StoredCluster) -> None:
    """A fence of the current epoch permits the write."""
    _, lease = await _taken_over(cluster)
    spec = session_spec(cluster.new("s"))
    await cluster.store.run(lambda unit: unit.sessions.enqueue(spec, BY_COORDINATOR), fence=lease.fence)
    [(_, entry)] = await cluster.store.read(lambda unit: unit.sessions.history(spec.session_id))
    expect((entry.lease, entry.epoch) == (lease.name, 2), "the history does not have the leader")


async def a_replaced_leader_writes_nothing(cluster: StoredCluster) -> None:
    """FencedOut before its work begins, with neither row nor event."""
    old, _ = await _taken_over(cluster)
    name, called = cluster.new("s"), []
    await published(cluster)

    async def work(unit: UnitOfWork) -> None:
        called.append(name)
        await unit.sessions.enqueue(session_spec(name), BY_COORDINATOR)
        await unit.emit([notice(1)])

    error = await refusal(cluster.store.run(work, fence=old.fence), FencedOut)
    expect((error.epoch, error.current) == (1, 2), "the refusal does not have the current epoch")
    expect(not called, "the work of a replaced leader began")
    expect(not await is_there(cluster, name), "a leader that was replaced wrote")
    expect(not await published(cluster), "a replaced leader published an event")


async def a_fence_of_an_unknown_lease_is_refused(cluster: StoredCluster) -> None:
    """Or of a future epoch."""
    _, lease = await _taken_over(cluster)
    for fence in (Fence(cluster.new("lease"), 1), Fence(lease.name, lease.epoch + 1)):
        await refusal(cluster.store.run(lambda unit: unit.fleet.all(), fence=fence), FencedOut)


async def a_change_of_leader_waits_for_the_current_write(cluster: StoredCluster) -> None:
    """So that the epoch of a commit is current when it commits."""
    name = cluster.new("lease")
    lease = await cluster.leases.acquire(name, holder="m1", ttl_s=SHORT_S)
    if lease is None:
        raise AssertionError("a free lease was refused")
    order: list[str] = []

    async def succeed() -> None:
        async def taken() -> bool:
            return await cluster.leases.acquire(name, holder="m2", ttl_s=60) is not None

        await until(taken, elapse=cluster.elapse)
        order.append("new leader")

    async def work(unit: UnitOfWork) -> asyncio.Future[None]:
        await unit.fleet.all()
        await cluster.elapse(2 * SHORT_S)
        successor = asyncio.ensure_future(succeed())
        await asyncio.wait([successor], timeout=A_MOMENT_S)
        order.append("write of the old leader")
        return successor

    await (await cluster.store.run(work, fence=lease.fence))
    expect(order == ["write of the old leader", "new leader"], f"the order was {order}")


async def events_are_published_after_their_commit(cluster: StoredCluster) -> None:
    """In the order of emission, and none before the end."""
    await published(cluster)
    sent = [notice(number) for number in range(5)]

    async def work(unit: UnitOfWork) -> None:
        await unit.emit(sent[:3])
        await unit.emit(sent[3:])

    await cluster.store.run(work)
    expect(await published(cluster) == sent, "the events of a commit did not come out as they went in")


async def every_move_is_published(cluster: StoredCluster) -> None:
    """Events cover agents, sessions and kernels."""
    agent, name = cluster.new("a"), cluster.new("s")
    await published(cluster)
    await cluster.agent(agent)
    await cluster.submit(name)
    await cluster.place(name, agent)
    events = await published(cluster)
    kinds = {type(event) for event in events}
    expect(kinds == {AgentEnrolled, SessionMoved, KernelMoved}, f"published: {sorted(kind.__name__ for kind in kinds)}")
    moved = [event for event in events if isinstance(event, SessionMoved)]
    expect([(one.session_id, one.after.value) for one in moved] == [(name, "scheduled")], "the session's move is wrong")


async def published_events_are_not_published_again(cluster: StoredCluster) -> None:
    """An empty outbox returns 0."""
    await emitted(cluster, [notice(1)])
    await published(cluster)

    async def take(batch: Sequence[Event]) -> None:
        raise AssertionError(f"published again: {batch}")

    expect(await cluster.store.outbox.publish_pending(take, limit=AT_ONCE) == 0, "an empty outbox published something")


async def a_failed_publish_loses_nothing(cluster: StoredCluster) -> None:
    """The next attempt publishes the same events in the same order."""
    await published(cluster)
    await emitted_apart(cluster, 3)

    async def fail(batch: Sequence[Event]) -> None:
        del batch
        raise Broken

    await refusal(cluster.store.outbox.publish_pending(fail, limit=AT_ONCE), Broken)
    expect(await published(cluster) == [notice(number) for number in range(3)], "events were lost with a failure")


async def batches_are_published_in_order(cluster: StoredCluster) -> None:
    """At most `limit` at a time; the rest stays."""
    await published(cluster)
    await emitted_apart(cluster, 5)
    expect(await published(cluster, limit=2) == [notice(0), notice(1)], "not the oldest batches went out first")
    expect(await published(cluster) == [notice(2), notice(3), notice(4)], "the rest did not stay")


async def many_events_of_one_unit_are_all_published(cluster: StoredCluster) -> None:
    """Any number, in order."""
    await published(cluster)
    sent = [notice(number) for number in range(1203)]
    await emitted(cluster, sent)
    expect(await published(cluster) == sent, "a large number of events did not come out as it went in")


async def sessions_beyond_their_retention_are_removed(cluster: StoredCluster) -> None:
    """With all their rows; not one that lives or that a living one depends on."""
    old, needed, lives = (cluster.new("s") for _ in range(3))
    for name in (old, needed):
        await cluster.submit(name, kernels=2)
    await cluster.submit(lives, dependencies=(SessionId(needed),))
    for name in (old, needed):
        await cluster.stop(name)
    await cluster.elapse(1.5)
    while await cluster.store.expire(StoreRetention(sessions_s=1)):
        pass
    await refusal(cluster.session(old), ObjectNotFound)
    expect((await cluster.session(needed)).session_id == needed, "a session was removed that another waits for")
    expect((await cluster.session(lives)).session_id == lives, "a living session was removed")


async def pruning_keeps_what_is_still_needed(cluster: StoredCluster) -> None:
    """Idempotency keys and verdicts of pending sessions."""
    name, key = cluster.new("s"), RequestKey("u", cluster.new("key"), "digest")
    record = await cluster.submit(name, request=key)
    verdict = StoredVerdict(record.session_id, "no-slots", "it waits", "{}")
    await cluster.store.run(lambda unit: unit.verdicts.put([verdict]))
    await cluster.store.prune(older_than_s=0)
    expect(await cluster.submit(cluster.new("s"), request=key) == record, "the key of a request was forgotten")
    kept = await cluster.store.read(lambda unit: unit.verdicts.get(record.session_id))
    expect(kept is not None, "why a session waits was forgotten")


CHECKS: tuple[Check, ...] = (
    a_unit_of_work_returns_the_result_of_its_work,
    a_unit_sees_its_own_writes,
    a_unit_is_invisible_before_its_end,
    a_read_sees_one_state,
    a_failed_unit_leaves_nothing,
    a_cancelled_unit_leaves_nothing,
    a_caught_refusal_does_not_affect_the_rest,
    the_time_of_a_unit_is_constant,
    concurrent_units_each_happen_once,
    batched_items_each_happen_once,
    a_refusal_of_a_batched_item_is_raised_for_it_alone,
    the_history_records_the_fence_of_the_leader,
    a_replaced_leader_writes_nothing,
    a_fence_of_an_unknown_lease_is_refused,
    a_change_of_leader_waits_for_the_current_write,
    events_are_published_after_their_commit,
    every_move_is_published,
    published_events_are_not_published_again,
    a_failed_publish_loses_nothing,
    batches_are_published_in_order,
    many_events_of_one_unit_are_all_published,
    pruning_keeps_what_is_still_needed,
    sessions_beyond_their_retention_are_removed,
)
