"""Contract of `ports.repositories.sessions.Sessions`: many sessions in one step."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from sokovan.domain.errors import (
    Conflict,
    ForbiddenCause,
    IdempotencyConflict,
    IllegalTransition,
    LifecycleError,
    ObjectNotFound,
    SokovanError,
)
from sokovan.domain.events import KernelMoved, KernelsMoved, SessionMoved
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.kernel import FreeProof, KernelStatus, KernelTrigger
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.records import Change, KernelMove, SessionRecord, SessionResult
from sokovan.domain.session import SessionSpec
from sokovan.ports.repositories.sessions import NewSession, RequestKey
from sokovan.ports.storage import UnitOfWork
from sokovan.testing.contracts import expect
from sokovan.testing.contracts.repositories.sessions import session_history
from sokovan.testing.contracts.sessions.session_moves import placed
from sokovan.testing.contracts.storage import published
from sokovan.testing.stored_cluster import BY_AGENT, BY_COORDINATOR, BY_USER, StoredCluster, refusal, session_spec

Check: TypeAlias = Callable[[StoredCluster], Awaitable[None]]


def moves_of(sessions: Sequence[SessionRecord], trigger: KernelTrigger, code: int | None = None) -> list[KernelMove]:
    """The same move for all kernels of these sessions, the last session first."""
    return [KernelMove(kernel, trigger, code) for one in reversed(sessions) for kernel in one.kernels]


async def moved_many(
    cluster: StoredCluster, moves: Sequence[KernelMove], change: Change = BY_COORDINATOR
) -> Sequence[SessionRecord]:
    """Move kernels of many sessions in one call."""
    return await cluster.store.run(lambda unit: unit.sessions.move_many(moves, change))


async def every_session_is_moved_as_if_alone(cluster: StoredCluster) -> None:
    """The result is ordered by id and equals the stored records."""
    sessions = [await placed(cluster, kernels=count) for count in (1, 3, 1)]
    steps = [
        (KernelTrigger.IMAGE_READY, BY_COORDINATOR, SessionStatus.PREPARED),
        (KernelTrigger.CREATION_REQUESTED, BY_COORDINATOR, SessionStatus.CREATING),
        (KernelTrigger.STARTED, BY_AGENT, SessionStatus.RUNNING),
    ]
    for trigger, change, status in steps:
        sessions = list(await moved_many(cluster, moves_of(sessions, trigger), change))
        expect([one.status for one in sessions] == [status] * 3, f"{trigger} gave {[one.status for one in sessions]}")
        ids = [one.session_id for one in sessions]
        expect(ids == sorted(ids), "the sessions are not in the order of their ids")
        expect(sessions == [await cluster.session(one) for one in ids], "the answer is not what the store has")
    for one in sessions:
        states = [entry.after for entry in await session_history(cluster, one.session_id)]
        expect(states == ["pending", "scheduled", "prepared", "creating", "running"], f"the history is {states}")


async def a_known_session_is_written_as_if_it_was_read(cluster: StoredCluster) -> None:
    """Kernel by kernel through a whole life, and back to waiting if it is retried."""
    for ending in (KernelTrigger.STOP_REQUESTED, KernelTrigger.RETRY_REQUESTED):
        now = await placed(cluster, kernels=3)
        for trigger, change in (
            (KernelTrigger.IMAGE_READY, BY_COORDINATOR),
            (KernelTrigger.CREATION_REQUESTED, BY_COORDINATOR),
            (ending, BY_COORDINATOR),
        ):
            for index in range(3):
                moves, known = [KernelMove(now.kernels[index], trigger)], {now.session_id: now}
                work = partial(_moved_known, moves, change, known)
                [now] = await cluster.store.run(work)
                expect(now == await cluster.session(now.session_id), f"{trigger} of a known session is not stored so")
        for index in range(3):
            [now] = await cluster.store.run(partial(_freed_known, now, index))
            expect(now == await cluster.session(now.session_id), "a known session that was freed is not stored so")
        wanted = SessionStatus.TERMINATED if ending is KernelTrigger.STOP_REQUESTED else SessionStatus.PENDING
        expect(now.status is wanted, f"it is {now.status}")


async def _moved_known(
    moves: Sequence[KernelMove], change: Change, known: Mapping[SessionId, SessionRecord], unit: UnitOfWork
) -> Sequence[SessionRecord]:
    return await unit.sessions.move_many(moves, change, known=known)


async def _freed_known(session: SessionRecord, index: int, unit: UnitOfWork) -> Sequence[SessionRecord]:
    known = {session.session_id: session}
    return await unit.ledger.free([session.kernels[index]], FreeProof.AGENT_TOMBSTONE, BY_COORDINATOR, known=known)


_STEPS = (
    (BY_COORDINATOR, KernelTrigger.IMAGE_READY),
    (replace(BY_COORDINATOR, code="asked"), KernelTrigger.CREATION_REQUESTED),
    (BY_AGENT, KernelTrigger.STARTED),
    (BY_COORDINATOR, KernelTrigger.STOP_REQUESTED),
)


async def steps_at_once_are_as_if_one_after_the_other(cluster: StoredCluster) -> None:
    """The same states, histories and events; each row is written once."""
    single, at_once = [await placed(cluster, kernels=2) for _ in range(2)], [await placed(cluster, kernels=2)]
    before = at_once[0]
    await published(cluster)
    for change, trigger in _STEPS:
        single = list(await moved_many(cluster, moves_of(single, trigger), change))
    one_by_one = await published(cluster)
    steps = [(change, moves_of(at_once, trigger)) for change, trigger in _STEPS]
    [after] = await cluster.store.run(
        lambda unit: unit.sessions.move_in_steps(steps, known={before.session_id: before})
    )
    together = await published(cluster)
    expect(after == await cluster.session(after.session_id), "the answer is not what the store has")
    expect(after.version == before.version + 1, "the session was written more than once")
    expect(
        (after.status, after.cause, after.result) == (single[0].status, single[0].cause, single[0].result), "the end"
    )
    for kernel, same in zip(after.kernels, single[0].kernels, strict=True):
        expect((kernel.status, kernel.sent) == (same.status, same.sent), f"{kernel} instead of {same}")
    histories = [await _whole_history(cluster, one.session_id) for one in (after, single[0])]
    expect(histories[0] == histories[1], f"the histories differ: {histories}")
    expect(2 * len(together) == len(one_by_one), f"{len(together)} events instead of {len(one_by_one)} for two")


async def _whole_history(cluster: StoredCluster, session_id: SessionId) -> list[tuple[object, ...]]:
    """The history of a session and of its kernels, without ids and times."""
    found = await cluster.store.read(lambda unit: unit.sessions.history(session_id, kernels=True))
    return sorted(
        (
            name.removeprefix(session_id),
            one.sequence,
            str(one.before),
            one.after,
            one.trigger,
            one.change.by,
            one.change.code,
        )
        for name, one in found
    )


async def a_stale_session_takes_none_of_several_steps(cluster: StoredCluster) -> None:
    """The others take all of theirs."""
    sessions = [await placed(cluster) for _ in range(2)]
    await moved_many(cluster, moves_of(sessions[:1], KernelTrigger.PREPARATION_STARTED))
    before = await cluster.session(sessions[0].session_id)
    steps = [(change, moves_of(sessions, trigger)) for change, trigger in _STEPS[:2]]
    after = await cluster.store.run(lambda unit: unit.sessions.move_in_steps(steps))
    expect([one.session_id for one in after] == [sessions[1].session_id], "the wrong sessions moved")
    expect(after[0].status is SessionStatus.CREATING, f"it is {after[0].status}")
    expect(await cluster.session(sessions[0].session_id) == before, "a session that was changed was moved")
    none = await cluster.store.run(lambda unit: unit.sessions.move_in_steps([]))
    expect(list(none) == [], "no steps moved something")


async def each_move_is_published_once(cluster: StoredCluster) -> None:
    """Kernels and sessions, with the commit."""
    sessions = [await placed(cluster, kernels=2) for _ in range(3)]
    await published(cluster)
    await moved_many(cluster, moves_of(sessions, KernelTrigger.IMAGE_READY))
    events = await published(cluster)
    kernels = sorted(event.kernel_id for event in events if isinstance(event, KernelMoved))
    follows = sorted(event.session_id for event in events if isinstance(event, SessionMoved))
    expect(
        kernels == sorted(kernel.kernel_id for one in sessions for kernel in one.kernels),
        "other kernels were published",
    )
    expect(follows == sorted(one.session_id for one in sessions), "other sessions were published")


async def kernels_that_move_alike_are_published_together(cluster: StoredCluster) -> None:
    """Each once, in few events."""
    agent, name = cluster.new("a"), cluster.new("s")
    await cluster.agent(agent, slots={"cpu": 250_000, "mem": 250 << 30})
    await cluster.submit(name, kernels=250)
    await cluster.place(name, *[agent] * 250)
    session = await cluster.session(name)
    await published(cluster)
    await moved_many(cluster, moves_of([session], KernelTrigger.IMAGE_READY))
    events = [event for event in await published(cluster) if isinstance(event, KernelMoved | KernelsMoved)]
    named = [
        kernel
        for event in events
        for kernel in ([event.kernel_id] if isinstance(event, KernelMoved) else event.kernel_ids)
    ]
    expect(sorted(named) == sorted(one.kernel_id for one in session.kernels), "other kernels were published")
    expect(len(events) <= 3, f"250 kernels are {len(events)} events")


async def a_concurrently_changed_session_is_skipped(cluster: StoredCluster) -> None:
    """With all its kernels. The others move."""
    sessions = [await placed(cluster, kernels=2) for _ in range(3)]
    changed = sessions[1]
    before = await cluster.store.run(
        lambda unit: unit.sessions.move_kernels(
            [KernelMove(changed.kernels[1], KernelTrigger.PREPARATION_STARTED)], BY_COORDINATOR
        )
    )
    after = await moved_many(cluster, moves_of(sessions, KernelTrigger.IMAGE_READY))
    expect([one.session_id for one in after] == sorted({s.session_id for s in sessions} - {changed.session_id}), "who")
    expect(await cluster.session(changed.session_id) == before, "a session that was changed was moved in part")
    again = await moved_many(cluster, moves_of(sessions, KernelTrigger.IMAGE_READY))
    expect(list(again) == [], "moves that were made already were made again")


async def missing_sessions_and_kernels_are_skipped(cluster: StoredCluster) -> None:
    """An empty list of moves does nothing."""
    one, other = await placed(cluster), await placed(cluster)
    elsewhere = KernelMove(other.kernels[0], KernelTrigger.IMAGE_READY)
    nowhere = _in_session(elsewhere, cluster.new("s"))
    misplaced = _in_session(elsewhere, one.session_id)
    after = await moved_many(cluster, [nowhere, misplaced, *moves_of([one], KernelTrigger.IMAGE_READY)])
    expect(list(after) == [], "a session was moved with a kernel that is not its own")
    expect(list(await moved_many(cluster, [])) == [], "no moves moved something")


async def an_illegal_move_among_many_moves_nothing(cluster: StoredCluster) -> None:
    """No event is published either, even if the unit of work continues."""
    sessions = [await placed(cluster) for _ in range(2)]
    waiting = await cluster.submit(cluster.new("s"))
    wrong: list[tuple[KernelMove, Change, type[LifecycleError]]] = [
        (KernelMove(sessions[1].kernels[0], KernelTrigger.STARTED), BY_AGENT, IllegalTransition),
        (KernelMove(sessions[1].kernels[0], KernelTrigger.EXPIRED), BY_AGENT, ForbiddenCause),
        (KernelMove(sessions[1].kernels[0], KernelTrigger.GONE), BY_AGENT, IllegalTransition),
        (KernelMove(waiting.kernels[0], KernelTrigger.ALLOCATED), BY_AGENT, IllegalTransition),
    ]
    await published(cluster)
    for move, change, error in wrong:
        moves = [*moves_of(sessions[:1], KernelTrigger.IMAGE_READY), move]

        async def work(
            unit: UnitOfWork,
            moves: Sequence[KernelMove] = moves,
            change: Change = change,
            error: type[LifecycleError] = error,
        ) -> None:
            await refusal(unit.sessions.move_many(moves, change), error)

        await cluster.store.run(work)
    expect([await cluster.session(one.session_id) for one in sessions] == sessions, "a refused step changed something")
    expect(await published(cluster) == [], "a refused step was published")


async def each_session_has_its_own_end(cluster: StoredCluster) -> None:
    """With its own result and exit codes; pending sessions can be withdrawn."""
    good, bad = [await placed(cluster, running=True) for _ in range(2)]
    moves = [*moves_of([good], KernelTrigger.EXITED, 0), *moves_of([bad], KernelTrigger.EXITED, 3)]
    after = {one.session_id: one for one in await moved_many(cluster, moves, BY_AGENT)}
    ends = [(after[one.session_id].result, after[one.session_id].kernels[0].exit_code) for one in (good, bad)]
    expect(ends == [(SessionResult.SUCCESS, 0), (SessionResult.FAILURE, 3)], f"the ends are {ends}")
    waiting = [await cluster.submit(cluster.new("s"), kernels=2) for _ in range(2)]
    late = Change("sweep", BY_COORDINATOR.by, code="pending-timeout", detail="waited for an hour")
    ended = await moved_many(cluster, moves_of(waiting, KernelTrigger.WITHDRAWN), late)
    found = {(one.status, one.cause, one.cause_detail, one.kernels[1].status) for one in ended}
    expected = (SessionStatus.CANCELLED, "pending-timeout", "waited for an hour", KernelStatus.CANCELLED)
    expect(found == {expected}, f"withdrawn sessions are {found}")


async def concurrent_batches_move_each_session_once(cluster: StoredCluster) -> None:
    """In any order."""
    sessions = [await placed(cluster) for _ in range(6)]
    moves = moves_of(sessions, KernelTrigger.IMAGE_READY)
    results = await asyncio.gather(moved_many(cluster, moves), moved_many(cluster, moves[::-1]))
    moved = [one.session_id for result in results for one in result]
    expect(sorted(moved) == sorted(one.session_id for one in sessions), "a session was moved twice, or not at all")
    for one in sessions:
        expect((await cluster.session(one.session_id)).version == one.version + 1, "a version counts another number")


async def stored_many(cluster: StoredCluster, *wanted: NewSession) -> Sequence[SessionRecord | SokovanError]:
    """Enqueue sessions in one call; returns the outcomes."""
    return await cluster.store.run(lambda unit: unit.sessions.enqueue_many(wanted))


def new_session(cluster: StoredCluster, *, request: RequestKey | None = None, **options: Any) -> NewSession:
    """A session that is not stored yet."""
    return NewSession(session_spec(cluster.new("s"), **options), BY_USER, request)


async def many_new_sessions_are_stored_as_if_one_by_one(cluster: StoredCluster) -> None:
    """With kernels and histories, in order, each for its user."""
    users = [cluster.new("u") for _ in range(2)]
    wanted = [new_session(cluster, kernels=kernels, owner=Owner(user=user)) for user in users for kernels in (1, 3)]
    wanted = [replace(new, change=replace(BY_USER, who=new.spec.owner.user)) for new in wanted]
    stored = await stored_many(cluster, *wanted)
    expect(stored == [await cluster.session(new.spec.session_id) for new in wanted], "the answer is not what is stored")
    places = [one.place for one in stored if isinstance(one, SessionRecord)]
    expect(places == sorted(set(places)) and len(places) == 4, f"the places are {places}")
    for new in wanted:
        [entry] = await session_history(cluster, new.spec.session_id)
        expect(entry.change == new.change, "a history has another author")


async def a_refusal_among_new_sessions_does_not_affect_others(cluster: StoredCluster) -> None:
    """It is returned in its place, and its session is not stored."""
    user, old = cluster.new("u"), cluster.new("s")
    await cluster.submit(old, name="train", owner=Owner(user=user))
    wanted = [
        new_session(cluster),
        new_session(cluster, name="train", owner=Owner(user=user)),
        new_session(cluster, scaling_group=cluster.new("nowhere")),
        new_session(cluster, dependencies=(SessionId(cluster.new("nobody")),)),
        NewSession(session_spec(old), BY_USER),
        new_session(cluster),
    ]
    kinds = [type(one) for one in await stored_many(cluster, *wanted)]
    expect(
        kinds == [SessionRecord, Conflict, ObjectNotFound, ObjectNotFound, Conflict, SessionRecord], f"they are {kinds}"
    )
    await refusal(cluster.session(wanted[1].spec.session_id), ObjectNotFound)


async def conflicting_new_sessions_are_inserted_in_order(cluster: StoredCluster) -> None:
    """The first of a name gets it; a repeated request creates one session."""
    owner, key = Owner(user=cluster.new("u")), RequestKey(cluster.new("u"), "k", "digest")
    named = [new_session(cluster, name="train", owner=owner) for _ in range(2)]
    keyed = [new_session(cluster, request=key) for _ in range(3)]
    other = new_session(cluster, request=replace(key, digest="other"))
    first, second, *same, refused = await stored_many(cluster, *named, *keyed, other)
    expect((type(first), type(second)) == (SessionRecord, Conflict), "a name was given twice, or not at all")
    expect(same == [await cluster.session(keyed[0].spec.session_id)] * 3, "one request made several sessions")
    expect(type(refused) is IdempotencyConflict, f"another request with the same key is {refused}")


async def a_request_finds_its_session(cluster: StoredCluster) -> None:
    """None if it created none."""
    key, name = RequestKey(cluster.new("u"), "k", "digest"), cluster.new("s")

    async def requested(request: RequestKey) -> SessionRecord | None:
        return await cluster.store.read(lambda unit: unit.sessions.requested(request))

    expect(await requested(key) is None, "a request that never came has a session")
    await cluster.submit(name, request=key)
    expect(await requested(key) == await cluster.session(name), "a request does not find its session")
    await refusal(requested(replace(key, digest="other")), IdempotencyConflict)


async def concurrent_batches_store_each_key_and_name_once(cluster: StoredCluster) -> None:
    """In any order."""
    owner, keys = Owner(user=cluster.new("u")), [RequestKey(cluster.new("u"), "k", "digest") for _ in range(3)]
    wanted = [
        [*(new_session(cluster, request=key) for key in keys), new_session(cluster, name="train", owner=owner)]
        for _ in range(4)
    ]
    batches = [batch if number % 2 else batch[::-1] for number, batch in enumerate(wanted)]
    results = await asyncio.gather(*(stored_many(cluster, *batch) for batch in batches))
    outcomes = [outcome for result in results for outcome in result]
    made = {one.session_id for one in outcomes if isinstance(one, SessionRecord)}
    expect(len(made) == 4, f"{len(made)} sessions were created for three keys and one name")
    refused = [type(one) for one in outcomes if isinstance(one, SokovanError)]
    expect(refused == [Conflict] * 3, f"the refusals are {refused}")


async def a_replacement_takes_over_the_dependents(cluster: StoredCluster) -> None:
    """Of pending sessions; their other dependencies stay."""
    first, other = await cluster.submit(cluster.new("s")), await cluster.submit(cluster.new("s"))
    waits = await cluster.submit(cluster.new("s"), dependencies=(first.session_id, other.session_id))
    replacement = session_spec(cluster.new("s"))
    mark, _ = await cluster.store.read(lambda unit: unit.sessions.changed(None))
    await cluster.store.run(
        lambda unit: unit.sessions.enqueue(replacement, BY_COORDINATOR, in_place_of=first.session_id)
    )
    after = await cluster.store.read(lambda unit: unit.sessions.get(waits.session_id))
    wanted = (replacement.session_id, other.session_id)
    expect(after.spec.dependencies == wanted, f"it waits for {after.spec.dependencies}, not for {wanted}")
    expect(after.version > waits.version, "the version did not change")
    _, changed = await cluster.store.read(lambda unit: unit.sessions.changed(mark))
    expect(waits.session_id in changed, "it is not among what changed")
    moves = [KernelMove(kernel, KernelTrigger.WITHDRAWN) for kernel in waits.kernels]
    moved = await cluster.store.run(lambda unit: unit.sessions.move_many(moves, BY_COORDINATOR))
    expect(not moved, "a copy that names the replaced session still moves its dependent")


async def a_dependency_on_a_replaced_session_is_one_on_its_last_successor(cluster: StoredCluster) -> None:
    """Also for a session submitted afterwards, which can name only the replaced one."""
    replaced, other = await cluster.submit(cluster.new("s")), await cluster.submit(cluster.new("s"))
    before = replaced.session_id
    for _ in range(2):
        successor = session_spec(cluster.new("s"))
        await cluster.store.run(partial(_replace, successor, before))
        before = successor.session_id
    waits = await cluster.submit(cluster.new("s"), dependencies=(replaced.session_id, other.session_id, before))
    wanted = (before, other.session_id)
    expect(waits.spec.dependencies == wanted, f"it waits for {waits.spec.dependencies}, not for {wanted}")
    stored = await cluster.session(waits.session_id)
    expect(stored.spec.dependencies == wanted, "the stored session waits for another one")


async def _replace(spec: SessionSpec, before: SessionId, unit: UnitOfWork) -> None:
    await unit.sessions.enqueue(spec, BY_COORDINATOR, in_place_of=before)


def _in_session(move: KernelMove, session_id: str) -> KernelMove:
    kernel = move.kernel
    elsewhere = type(kernel)(
        kernel.kernel_id, SessionId(session_id), kernel.index, kernel.status, kernel.version, kernel.slots
    )
    return KernelMove(elsewhere, move.trigger)


CHECKS: tuple[Check, ...] = (
    every_session_is_moved_as_if_alone,
    a_known_session_is_written_as_if_it_was_read,
    steps_at_once_are_as_if_one_after_the_other,
    a_stale_session_takes_none_of_several_steps,
    each_move_is_published_once,
    kernels_that_move_alike_are_published_together,
    a_concurrently_changed_session_is_skipped,
    missing_sessions_and_kernels_are_skipped,
    an_illegal_move_among_many_moves_nothing,
    each_session_has_its_own_end,
    concurrent_batches_move_each_session_once,
    many_new_sessions_are_stored_as_if_one_by_one,
    a_refusal_among_new_sessions_does_not_affect_others,
    conflicting_new_sessions_are_inserted_in_order,
    a_request_finds_its_session,
    concurrent_batches_store_each_key_and_name_once,
    a_replacement_takes_over_the_dependents,
    a_dependency_on_a_replaced_session_is_one_on_its_last_successor,
)
