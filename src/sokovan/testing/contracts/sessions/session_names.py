"""Contract of `ports.repositories.sessions.Sessions`: names and lookup."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from sokovan.domain.errors import Conflict, ObjectNotFound
from sokovan.domain.ids import QueueName, SessionId
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.records import SessionSummary
from sokovan.ports.repositories.sessions import (
    NO_REASON,
    RequestKey,
    SessionFilter,
    SessionOrder,
    SessionPosition,
    SessionSort,
)
from sokovan.ports.repositories.verdicts import StoredVerdict
from sokovan.ports.storage import UnitOfWork
from sokovan.testing.contracts import expect
from sokovan.testing.stored_cluster import BY_USER, StoredCluster, refusal, session_spec

Check: TypeAlias = Callable[[StoredCluster], Awaitable[None]]

ANY = SessionFilter()


async def matches(cluster: StoredCluster, text: str, wanted: SessionFilter = ANY) -> list[str]:
    """The ids of the sessions that a text matches."""
    return [one.session_id for one in await cluster.store.read(lambda unit: unit.sessions.named(text, wanted))]


async def named(cluster: StoredCluster, name: str, *, user: str, **options: Any) -> str:
    """Enqueue a session with a name for a user; returns its id."""
    session_id = cluster.new("s")
    await cluster.submit(session_id, name=name, owner=Owner(user=user), **options)
    return session_id


async def newest(cluster: StoredCluster, wanted: SessionFilter, *, limit: int, after: int | None = None) -> list[str]:
    """A page of sessions, newest first."""
    found = await cluster.store.read(lambda unit: unit.sessions.page(wanted, limit=limit, after=after, newest=True))
    return [one.session_id for one in found]


async def a_name_is_unique_among_live_sessions(cluster: StoredCluster) -> None:
    """Conflict has the name and a hint; nothing of the second session is stored."""
    user, name, second = cluster.new("u"), cluster.new("train"), cluster.new("s")
    first = await named(cluster, name, user=user)
    error = await refusal(cluster.submit(second, name=name, owner=Owner(user=user)), Conflict)
    expect(name in error.message and first in error.message, f"the refusal does not have the name: {error.message}")
    expect("another name" in error.hint, f"the hint does not help: {error.hint}")
    await refusal(cluster.session(second), ObjectNotFound)


async def a_name_can_be_reused_after_the_end(cluster: StoredCluster) -> None:
    """An ended session keeps its name and does not block it."""
    user, name = cluster.new("u"), cluster.new("train")
    for _ in range(3):
        await cluster.stop(await named(cluster, name, user=user))
    found = await newest(cluster, SessionFilter(user=user, name=name), limit=9)
    expect(len(found) == 3, f"{len(found)} of three sessions kept their name")


async def names_of_different_users_are_independent(cluster: StoredCluster) -> None:
    """Sessions without a name never conflict."""
    name, users = cluster.new("train"), [cluster.new("u") for _ in range(2)]
    for user in users:
        await named(cluster, name, user=user)
        await named(cluster, "", user=user)
        await named(cluster, "", user=user)
    for user in users:
        found = await newest(cluster, SessionFilter(user=user), limit=9)
        expect(len(found) == 3, "a session was refused for a name that it does not have, or another user has")


async def of_concurrent_sessions_with_one_name_one_succeeds(cluster: StoredCluster) -> None:
    """The others get a conflict."""
    user, name = cluster.new("u"), cluster.new("train")
    attempts = [named(cluster, name, user=user) for _ in range(4)]
    results = await asyncio.gather(*attempts, return_exceptions=True)
    refused = [result for result in results if isinstance(result, Conflict)]
    expect(len(refused) == 3, f"of four sessions with one name {4 - len(refused)} were stored")
    expect(all("another name" in error.hint for error in refused), "a conflict of names reads like another one")


async def a_refused_name_does_not_affect_its_unit_of_work(cluster: StoredCluster) -> None:
    """Nor the idempotency key of its request."""
    user, name, key = cluster.new("u"), cluster.new("train"), RequestKey("u", cluster.new("key"), "digest")
    await named(cluster, name, user=user)
    refused, stored = (session_spec(cluster.new("s"), name=one, owner=Owner(user=user)) for one in (name, ""))

    async def work(unit: Any) -> None:
        await refusal(unit.sessions.enqueue(refused, BY_USER, request=key), Conflict)
        await unit.sessions.enqueue(stored, BY_USER, request=key)

    await cluster.store.run(work)
    await cluster.session(stored.session_id)
    await refusal(cluster.session(refused.session_id), ObjectNotFound)


async def an_id_matches_only_its_session(cluster: StoredCluster) -> None:
    """Also an ended one, and even if another session has it as a name."""
    user = cluster.new("u")
    ended = await named(cluster, "", user=user)
    await cluster.stop(ended)
    await named(cluster, ended, user=user)
    expect(await matches(cluster, ended) == [ended], "an id means something else than its session")


async def a_name_matches_the_live_session(cluster: StoredCluster) -> None:
    """Not an ended one, and not one that only has it as a prefix."""
    user, name = cluster.new("u"), cluster.new("train")
    await cluster.stop(await named(cluster, name, user=user))
    running = await named(cluster, name, user=user)
    await named(cluster, f"{name}2", user=user)
    expect(await matches(cluster, name, SessionFilter(user=user)) == [running], "a name means another session")


async def a_name_without_a_live_session_matches_the_last_one(cluster: StoredCluster) -> None:
    """Only the newest."""
    user, name = cluster.new("u"), cluster.new("train")
    before, last = [await named(cluster, name, user=one) for one in (user, cluster.new("u"))]
    for session_id in (last, before):
        await cluster.stop(session_id)
    expect(await matches(cluster, name) == [last], "a name without a live session does not match the last one")


async def a_name_of_two_users_is_ambiguous(cluster: StoredCluster) -> None:
    """Unless the filter names one of them."""
    name, users = cluster.new("train"), [cluster.new("u") for _ in range(3)]
    ids = [await named(cluster, name, user=user) for user in users]
    found = await matches(cluster, name)
    expect(len(found) == 2 and set(found) < set(ids), f"a name of three users means {found}")
    expect(await matches(cluster, name, SessionFilter(user=users[0])) == [ids[0]], "a user's own session is in doubt")


async def a_unique_prefix_of_an_id_or_name_is_enough(cluster: StoredCluster) -> None:
    """A prefix of two is ambiguous; ended sessions do not match."""
    user, name = cluster.new("u"), cluster.new("train")
    wanted = SessionFilter(user=user)
    first = await named(cluster, f"{name}-one", user=user)
    expect(await matches(cluster, name, wanted) == [first], "a prefix of a name is not enough")
    expect(await matches(cluster, first[:-1], wanted) == [first], "a prefix of an id is not enough")
    second = await named(cluster, f"{name}-two", user=user)
    expect(set(await matches(cluster, name, wanted)) == {first, second}, "two with a common prefix are not ambiguous")
    await cluster.stop(first)
    expect(await matches(cluster, name, wanted) == [second], "an ended session matches")
    await cluster.stop(second)
    expect(await matches(cluster, name, wanted) == [], "a prefix matches an ended session")


async def an_unknown_text_matches_nothing(cluster: StoredCluster) -> None:
    """Neither do an empty text, an invalid name, or one outside the filter."""
    user = cluster.new("u")
    mine = await named(cluster, cluster.new("train"), user=user)
    for text in (cluster.new("x"), "", "%", "_", "train*", "a b", "x\0y", "näme", "'; --", mine + "0"):
        expect(await matches(cluster, text) == [], f"{text!r} means a session")
    expect(await matches(cluster, mine, SessionFilter(user=cluster.new("u"))) == [], "a foreign session was found")
    expect(await matches(cluster, mine, SessionFilter(user="x\0y")) == [], "an impossible filter matches a session")


async def a_listing_can_begin_with_the_newest(cluster: StoredCluster) -> None:
    """It continues before a place."""
    user = cluster.new("u")
    ids = [await named(cluster, "", user=user) for _ in range(5)]
    wanted = SessionFilter(user=user)
    pages: list[str] = []
    after: int | None = None
    while found := await newest(cluster, wanted, limit=2, after=after):
        pages += found
        after = (await cluster.session(found[-1])).place
    expect(pages == ids[::-1], "the newest are not listed first, or pages leave out or repeat a session")


async def a_filter_limits_by_owner_queue_and_name(cluster: StoredCluster) -> None:
    """Alone and together; impossible values match nothing."""
    group, domain, queue = cluster.new("g"), cluster.new("d"), QueueName(cluster.new("q"))
    user, name = cluster.new("u"), cluster.new("n")
    owned, queued, named = (cluster.new("s") for _ in range(3))
    await cluster.submit(owned, owner=Owner(user, group, domain))
    await cluster.submit(queued, owner=Owner(user=user), queue=queue)
    await cluster.submit(named, owner=Owner(user=user), name=name)
    cases: list[tuple[SessionFilter, list[str]]] = [
        (SessionFilter(group=group), [owned]),
        (SessionFilter(domain=domain, user=user), [owned]),
        (SessionFilter(queue=queue), [queued]),
        (SessionFilter(name=name), [named]),
        (SessionFilter(name=name, queue=queue), []),
        (SessionFilter(user=user, statuses=[SessionStatus.PENDING]), [named, queued, owned]),
        (SessionFilter(user=user, queue="no\0queue"), []),
        (SessionFilter(ids=[SessionId("no name")]), []),
        (SessionFilter(ids=[SessionId("no name"), SessionId(owned)]), [owned]),
    ]
    for wanted, ids in cases:
        expect(await newest(cluster, wanted, limit=9) == ids, f"{wanted} gives other sessions")


async def a_listing_is_sorted_by_any_property(cluster: StoredCluster) -> None:
    """Page by page, with each session once; equal ones come newest first."""
    user, other, queue = cluster.new("u"), cluster.new("v"), cluster.new("q")
    shares = {"cuda.shares": 500}
    await named(cluster, "c", user=user, queue=QueueName(queue), slots={"cuda.device": 2}, kernels=2)
    await named(cluster, "a", user=other, queue=QueueName(queue), slots=shares)
    waits = await named(cluster, "b", user=user, queue=QueueName(queue), slots=shares, kernels=3)
    await cluster.stop(await named(cluster, "d", user=other, queue=QueueName(queue)))
    verdict = StoredVerdict(SessionId(waits), "NO_NODES", "none", "{}")
    await cluster.store.run(lambda unit: unit.verdicts.put([verdict]))
    cases: list[tuple[SessionSort, Callable[[SessionSummary], str | int], str, str]] = [
        (SessionSort.SUBMITTED, lambda one: one.place, "cabd", "dbac"),
        (SessionSort.NAME, lambda one: one.spec.name, "abcd", "dcba"),
        (SessionSort.USER, lambda one: one.spec.owner.user, "bcda", "dabc"),
        (SessionSort.QUEUE, lambda one: one.spec.queue, "dbac", "dbac"),
        (SessionSort.STATUS, lambda one: one.status.value, "dbac", "bacd"),
        (SessionSort.KERNELS, lambda one: one.spec.size, "dacb", "bcda"),
        (SessionSort.GPUS, lambda one: {"c": 4000, "a": 500, "b": 1500}.get(one.spec.name, 0), "dabc", "cbad"),
        (
            SessionSort.REASON,
            lambda one: "NO_NODES" if one.spec.name == "b" else one.cause or NO_REASON,
            "bdac",
            "acdb",
        ),
    ]
    for by, value, rising, falling in cases:
        for order, expected in ((SessionOrder(by), rising), (SessionOrder(by, falls=True), falling)):
            found = await _sorted_names(cluster, SessionFilter(queue=queue), order, value)
            expect(found == expected, f"{order} gives {found} instead of {expected}")


async def _sorted_names(
    cluster: StoredCluster, wanted: SessionFilter, order: SessionOrder, value: Callable[[SessionSummary], str | int]
) -> str:
    """The names of sessions in an order, read one after the other."""

    async def work(unit: UnitOfWork) -> str:
        found, after = "", None
        while page := await unit.sessions.summaries(wanted, limit=1, order=order, after=after):
            found += page[0].spec.name
            after = SessionPosition(page[0].place, value(page[0]))
        return found

    return await cluster.store.read(work)


CHECKS: tuple[Check, ...] = (
    a_name_is_unique_among_live_sessions,
    a_name_can_be_reused_after_the_end,
    names_of_different_users_are_independent,
    of_concurrent_sessions_with_one_name_one_succeeds,
    a_refused_name_does_not_affect_its_unit_of_work,
    an_id_matches_only_its_session,
    a_name_matches_the_live_session,
    a_name_without_a_live_session_matches_the_last_one,
    a_name_of_two_users_is_ambiguous,
    a_unique_prefix_of_an_id_or_name_is_enough,
    an_unknown_text_matches_nothing,
    a_listing_can_begin_with_the_newest,
    a_filter_limits_by_owner_queue_and_name,
    a_listing_is_sorted_by_any_property,
)
