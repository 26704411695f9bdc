"""The promises of `ports.repositories.sessions.Sessions` about many sessions in one step."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
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
from sokovan.domain.events import KernelMoved, SessionMoved
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.kernel import KernelStatus, KernelTrigger
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.domain.records import Change, KernelMove, SessionRecord, SessionResult
from sokovan.domain.tenancy import Owner
from sokovan.ports.repositories.sessions import NewSession, RequestKey
from sokovan.ports.storage import UnitOfWork
from sokovan.testing.contracts import expect
from sokovan.testing.contracts.repositories.sessions import story
from sokovan.testing.contracts.sessions.session_moves import placed
from sokovan.testing.contracts.storage import published
from sokovan.testing.stored_cluster import BY_AGENT, BY_COORDINATOR, BY_USER, StoredCluster, refusal, session_spec

Check: TypeAlias = Callable[[StoredCluster], Awaitable[None]]


def moves_of(sessions: Sequence[SessionRecord], trigger: KernelTrigger, code: int | None = None) -> list[KernelMove]:
    """The same move for every kernel of these sessions, the last session first."""
    return [KernelMove(kernel, trigger, code) for one in reversed(sessions) for kernel in one.kernels]


async def moved_many(
    cluster: StoredCluster, moves: Sequence[KernelMove], change: Change = BY_COORDINATOR
) -> Sequence[SessionRecord]:
    """Move kernels of many sessions in one call."""
    return await cluster.store.run(lambda unit: unit.sessions.move_many(moves, change))


async def every_session_is_moved_as_if_alone(cluster: StoredCluster) -> None:
    """The answer is by id and says what the store then has."""
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
        told = [entry.after for entry in await story(cluster, one.session_id)]
        expect(told == ["pending", "scheduled", "prepared", "creating", "running"], f"the story is {told}")


async def each_move_is_told_once(cluster: StoredCluster) -> None:
    """Kernels and sessions, with the commit."""
    sessions = [await placed(cluster, kernels=2) for _ in range(3)]
    await published(cluster)
    await moved_many(cluster, moves_of(sessions, KernelTrigger.IMAGE_READY))
    events = await published(cluster)
    kernels = sorted(event.kernel_id for event in events if isinstance(event, KernelMoved))
    follows = sorted(event.session_id for event in events if isinstance(event, SessionMoved))
    expect(kernels == sorted(kernel.kernel_id for one in sessions for kernel in one.kernels), "kernels told otherwise")
    expect(follows == sorted(one.session_id for one in sessions), "sessions are told otherwise")


async def a_session_that_was_changed_is_left_out(cluster: StoredCluster) -> None:
    """Whole: also its kernels that were not changed. The others move."""
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


async def sessions_and_kernels_that_are_not_there_are_left_out(cluster: StoredCluster) -> None:
    """And no moves move nothing."""
    one, other = await placed(cluster), await placed(cluster)
    elsewhere = KernelMove(other.kernels[0], KernelTrigger.IMAGE_READY)
    nowhere = _in_session(elsewhere, cluster.new("s"))
    misplaced = _in_session(elsewhere, one.session_id)
    after = await moved_many(cluster, [nowhere, misplaced, *moves_of([one], KernelTrigger.IMAGE_READY)])
    expect(list(after) == [], "a session was moved with a kernel that is not its own")
    expect(list(await moved_many(cluster, [])) == [], "no moves moved something")


async def an_illegal_move_among_many_moves_nothing(cluster: StoredCluster) -> None:
    """Nothing is told either, also if the unit of work goes on."""
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
    expect(await published(cluster) == [], "a refused step was told")


async def each_session_has_its_own_end(cluster: StoredCluster) -> None:
    """Results and exit codes are not mixed up, and waiting sessions can be withdrawn."""
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


async def of_two_who_move_the_same_sessions_each_is_moved_once(cluster: StoredCluster) -> None:
    """Whatever order they come in."""
    sessions = [await placed(cluster) for _ in range(6)]
    moves = moves_of(sessions, KernelTrigger.IMAGE_READY)
    results = await asyncio.gather(moved_many(cluster, moves), moved_many(cluster, moves[::-1]))
    moved = [one.session_id for result in results for one in result]
    expect(sorted(moved) == sorted(one.session_id for one in sessions), "a session was moved twice, or not at all")
    for one in sessions:
        expect((await cluster.session(one.session_id)).version == one.version + 1, "a version counts another number")


async def stored_many(cluster: StoredCluster, *wanted: NewSession) -> Sequence[SessionRecord | SokovanError]:
    """Store sessions in one call; what came of each."""
    return await cluster.store.run(lambda unit: unit.sessions.enqueue_many(wanted))


def new_session(cluster: StoredCluster, *, request: RequestKey | None = None, **options: Any) -> NewSession:
    """A session that is not stored yet."""
    return NewSession(session_spec(cluster.new("s"), **options), BY_USER, request)


async def many_new_sessions_are_stored_as_if_one_by_one(cluster: StoredCluster) -> None:
    """With their kernels and stories, in their order, each for its user."""
    users = [cluster.new("u") for _ in range(2)]
    wanted = [new_session(cluster, kernels=kernels, owner=Owner(user=user)) for user in users for kernels in (1, 3)]
    wanted = [replace(new, change=replace(BY_USER, who=new.spec.owner.user)) for new in wanted]
    stored = await stored_many(cluster, *wanted)
    expect(stored == [await cluster.session(new.spec.session_id) for new in wanted], "the answer is not what is stored")
    places = [one.place for one in stored if isinstance(one, SessionRecord)]
    expect(places == sorted(set(places)) and len(places) == 4, f"the places are {places}")
    for new in wanted:
        [entry] = await story(cluster, new.spec.session_id)
        expect(entry.change == new.change, "a story names somebody else")


async def a_refusal_among_new_sessions_takes_no_other_with_it(cluster: StoredCluster) -> None:
    """It stands in its place; what it asked for is not stored."""
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


async def new_sessions_that_want_the_same_come_one_after_the_other(cluster: StoredCluster) -> None:
    """The first of one name gets it; a request that comes twice makes one session."""
    owner, key = Owner(user=cluster.new("u")), RequestKey(cluster.new("u"), "k", "digest")
    named = [new_session(cluster, name="train", owner=owner) for _ in range(2)]
    keyed = [new_session(cluster, request=key) for _ in range(3)]
    other = new_session(cluster, request=replace(key, digest="other"))
    first, second, *same, refused = await stored_many(cluster, *named, *keyed, other)
    expect((type(first), type(second)) == (SessionRecord, Conflict), "a name was given twice, or not at all")
    expect(same == [await cluster.session(keyed[0].spec.session_id)] * 3, "one request made several sessions")
    expect(type(refused) is IdempotencyConflict, f"another request with the same key is {refused}")


async def a_request_finds_the_session_it_made(cluster: StoredCluster) -> None:
    """And none if it made none."""
    key, name = RequestKey(cluster.new("u"), "k", "digest"), cluster.new("s")

    async def requested(request: RequestKey) -> SessionRecord | None:
        return await cluster.store.read(lambda unit: unit.sessions.requested(request))

    expect(await requested(key) is None, "a request that never came has a session")
    await cluster.submit(name, request=key)
    expect(await requested(key) == await cluster.session(name), "a request does not find its session")
    await refusal(requested(replace(key, digest="other")), IdempotencyConflict)


async def batches_that_race_for_the_same_store_it_once(cluster: StoredCluster) -> None:
    """Names and keys, in whatever order they are asked for."""
    owner, keys = Owner(user=cluster.new("u")), [RequestKey(cluster.new("u"), "k", "digest") for _ in range(3)]
    wanted = [
        [*(new_session(cluster, request=key) for key in keys), new_session(cluster, name="train", owner=owner)]
        for _ in range(4)
    ]
    batches = [batch if number % 2 else batch[::-1] for number, batch in enumerate(wanted)]
    results = await asyncio.gather(*(stored_many(cluster, *batch) for batch in batches))
    outcomes = [outcome for result in results for outcome in result]
    made = {one.session_id for one in outcomes if isinstance(one, SessionRecord)}
    expect(len(made) == 4, f"{len(made)} sessions were made of three keys and one name")
    refused = [type(one) for one in outcomes if isinstance(one, SokovanError)]
    expect(refused == [Conflict] * 3, f"the refusals are {refused}")


async def a_session_in_the_place_of_another_is_waited_for_instead(cluster: StoredCluster) -> None:
    """By those that still wait; what they wait for besides stays."""
    first, other = await cluster.submit(cluster.new("s")), await cluster.submit(cluster.new("s"))
    waits = await cluster.submit(cluster.new("s"), dependencies=(first.session_id, other.session_id))
    heir = session_spec(cluster.new("s"))
    mark, _ = await cluster.store.read(lambda unit: unit.sessions.changed(None))
    await cluster.store.run(lambda unit: unit.sessions.enqueue(heir, BY_COORDINATOR, in_place_of=first.session_id))
    after = await cluster.store.read(lambda unit: unit.sessions.get(waits.session_id))
    wanted = (heir.session_id, other.session_id)
    expect(after.spec.dependencies == wanted, f"it waits for {after.spec.dependencies}, not for {wanted}")
    expect(after.version > waits.version, "nobody could see that it is another")
    _, changed = await cluster.store.read(lambda unit: unit.sessions.changed(mark))
    expect(waits.session_id in changed, "it is not among what changed")


def _in_session(move: KernelMove, session_id: str) -> KernelMove:
    kernel = move.kernel
    elsewhere = type(kernel)(
        kernel.kernel_id, SessionId(session_id), kernel.index, kernel.status, kernel.version, kernel.slots
    )
    return KernelMove(elsewhere, move.trigger)


CHECKS: tuple[Check, ...] = (
    every_session_is_moved_as_if_alone,
    each_move_is_told_once,
    a_session_that_was_changed_is_left_out,
    sessions_and_kernels_that_are_not_there_are_left_out,
    an_illegal_move_among_many_moves_nothing,
    each_session_has_its_own_end,
    of_two_who_move_the_same_sessions_each_is_moved_once,
    many_new_sessions_are_stored_as_if_one_by_one,
    a_refusal_among_new_sessions_takes_no_other_with_it,
    new_sessions_that_want_the_same_come_one_after_the_other,
    a_request_finds_the_session_it_made,
    batches_that_race_for_the_same_store_it_once,
    a_session_in_the_place_of_another_is_waited_for_instead,
)
