"""The promises of `ports.repositories.sessions.Sessions` about names and finding by them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from sokovan.domain.errors import Conflict, ObjectNotFound
from sokovan.domain.ids import QueueName, SessionId
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.domain.tenancy import Owner
from sokovan.ports.repositories.sessions import RequestKey, SessionFilter
from sokovan.testing.contracts import expect
from sokovan.testing.stored_cluster import BY_USER, StoredCluster, refusal, session_spec

Check: TypeAlias = Callable[[StoredCluster], Awaitable[None]]

ANY = SessionFilter()


async def meant(cluster: StoredCluster, text: str, wanted: SessionFilter = ANY) -> list[str]:
    """The ids of the sessions that a text may mean."""
    return [one.session_id for one in await cluster.store.read(lambda unit: unit.sessions.named(text, wanted))]


async def called(cluster: StoredCluster, name: str, *, user: str, **options: Any) -> str:
    """A new session of a user with a name; its id."""
    session_id = cluster.new("s")
    await cluster.submit(session_id, name=name, owner=Owner(user=user), **options)
    return session_id


async def newest(cluster: StoredCluster, wanted: SessionFilter, *, limit: int, after: int | None = None) -> list[str]:
    """A page of sessions, the newest first."""
    found = await cluster.store.read(lambda unit: unit.sessions.page(wanted, limit=limit, after=after, newest=True))
    return [one.session_id for one in found]


async def a_name_is_taken_while_its_session_goes_on(cluster: StoredCluster) -> None:
    """Conflict says the name and what to do; nothing of the second session stays."""
    user, name, second = cluster.new("u"), cluster.new("train"), cluster.new("s")
    first = await called(cluster, name, user=user)
    error = await refusal(cluster.submit(second, name=name, owner=Owner(user=user)), Conflict)
    expect(name in error.message and first in error.message, f"the refusal does not say which: {error.message}")
    expect("another name" in error.hint, f"the hint does not help: {error.hint}")
    await refusal(cluster.session(second), ObjectNotFound)


async def a_name_is_free_again_at_the_end(cluster: StoredCluster) -> None:
    """Cancelled or terminated, a session keeps its name, and does not block it."""
    user, name = cluster.new("u"), cluster.new("train")
    for _ in range(3):
        await cluster.stop(await called(cluster, name, user=user))
    found = await newest(cluster, SessionFilter(user=user, name=name), limit=9)
    expect(len(found) == 3, f"{len(found)} of three sessions kept their name")


async def names_of_different_users_do_not_meet(cluster: StoredCluster) -> None:
    """And a session without a name meets no other."""
    name, users = cluster.new("train"), [cluster.new("u") for _ in range(2)]
    for user in users:
        await called(cluster, name, user=user)
        await called(cluster, "", user=user)
        await called(cluster, "", user=user)
    for user in users:
        found = await newest(cluster, SessionFilter(user=user), limit=9)
        expect(len(found) == 3, "a session was refused for a name that it does not have, or another user has")


async def of_two_who_want_a_name_at_once_one_gets_it(cluster: StoredCluster) -> None:
    """The others are told of the conflict."""
    user, name = cluster.new("u"), cluster.new("train")
    attempts = [called(cluster, name, user=user) for _ in range(4)]
    results = await asyncio.gather(*attempts, return_exceptions=True)
    refused = [result for result in results if isinstance(result, Conflict)]
    expect(len(refused) == 3, f"of four sessions with one name {4 - len(refused)} were stored")
    expect(all("another name" in error.hint for error in refused), "a conflict of names reads like another one")


async def a_refused_name_leaves_the_rest_of_its_unit_of_work(cluster: StoredCluster) -> None:
    """And the key of its request."""
    user, name, key = cluster.new("u"), cluster.new("train"), RequestKey("u", cluster.new("key"), "digest")
    await called(cluster, name, user=user)
    refused, stored = (session_spec(cluster.new("s"), name=one, owner=Owner(user=user)) for one in (name, ""))

    async def work(unit: Any) -> None:
        await refusal(unit.sessions.enqueue(refused, BY_USER, request=key), Conflict)
        await unit.sessions.enqueue(stored, BY_USER, request=key)

    await cluster.store.run(work)
    await cluster.session(stored.session_id)
    await refusal(cluster.session(refused.session_id), ObjectNotFound)


async def an_id_means_its_session_and_no_other(cluster: StoredCluster) -> None:
    """Also one that has ended, and that another has for a name."""
    user = cluster.new("u")
    ended = await called(cluster, "", user=user)
    await cluster.stop(ended)
    await called(cluster, ended, user=user)
    expect(await meant(cluster, ended) == [ended], "an id means something else than its session")


async def a_name_means_the_session_that_goes_on(cluster: StoredCluster) -> None:
    """Not a newer or older one that has ended, and not one whose name begins so."""
    user, name = cluster.new("u"), cluster.new("train")
    await cluster.stop(await called(cluster, name, user=user))
    running = await called(cluster, name, user=user)
    await called(cluster, f"{name}2", user=user)
    expect(await meant(cluster, name, SessionFilter(user=user)) == [running], "a name means another session")


async def a_name_that_nobody_has_now_means_the_last_who_had_it(cluster: StoredCluster) -> None:
    """The newest, and that one alone."""
    user, name = cluster.new("u"), cluster.new("train")
    before, last = [await called(cluster, name, user=one) for one in (user, cluster.new("u"))]
    for session_id in (last, before):
        await cluster.stop(session_id)
    expect(await meant(cluster, name) == [last], "a name of the past does not mean the last who had it")


async def a_name_that_two_users_have_is_in_doubt(cluster: StoredCluster) -> None:
    """Unless it is asked for one of them."""
    name, users = cluster.new("train"), [cluster.new("u") for _ in range(3)]
    ids = [await called(cluster, name, user=user) for user in users]
    found = await meant(cluster, name)
    expect(len(found) == 2 and set(found) < set(ids), f"a name of three users means {found}")
    expect(await meant(cluster, name, SessionFilter(user=users[0])) == [ids[0]], "a user's own session is in doubt")


async def the_beginning_of_an_id_or_a_name_is_enough(cluster: StoredCluster) -> None:
    """Of one session; of two it is in doubt; of one that has ended it is nothing."""
    user, name = cluster.new("u"), cluster.new("train")
    wanted = SessionFilter(user=user)
    first = await called(cluster, f"{name}-one", user=user)
    expect(await meant(cluster, name, wanted) == [first], "the beginning of a name is not enough")
    expect(await meant(cluster, first[:-1], wanted) == [first], "the beginning of an id is not enough")
    second = await called(cluster, f"{name}-two", user=user)
    expect(set(await meant(cluster, name, wanted)) == {first, second}, "two that begin alike are not in doubt")
    await cluster.stop(first)
    expect(await meant(cluster, name, wanted) == [second], "a session that has ended is in the way")
    await cluster.stop(second)
    expect(await meant(cluster, name, wanted) == [], "the beginning of a name means a session that has ended")


async def nothing_is_meant_by_what_nobody_has(cluster: StoredCluster) -> None:
    """Nor by nothing, by what is no name, or by what is not wanted."""
    user = cluster.new("u")
    mine = await called(cluster, cluster.new("train"), user=user)
    for text in (cluster.new("x"), "", "%", "_", "train*", "a b", "x\0y", "näme", "'; --", mine + "0"):
        expect(await meant(cluster, text) == [], f"{text!r} means a session")
    expect(await meant(cluster, mine, SessionFilter(user=cluster.new("u"))) == [], "a foreign session was found")
    expect(await meant(cluster, mine, SessionFilter(user="x\0y")) == [], "a filter that fits nobody fits somebody")


async def a_listing_can_begin_with_the_newest(cluster: StoredCluster) -> None:
    """And goes on before a place."""
    user = cluster.new("u")
    ids = [await called(cluster, "", user=user) for _ in range(5)]
    wanted = SessionFilter(user=user)
    pages: list[str] = []
    after: int | None = None
    while found := await newest(cluster, wanted, limit=2, after=after):
        pages += found
        after = (await cluster.session(found[-1])).place
    expect(pages == ids[::-1], "the newest are not listed first, or pages leave out or repeat a session")


async def a_filter_limits_by_owner_queue_and_name(cluster: StoredCluster) -> None:
    """Alone and together; what no session can have fits none."""
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
        expect(await newest(cluster, wanted, limit=9) == ids, f"{wanted} does not give what it asks for")


CHECKS: tuple[Check, ...] = (
    a_name_is_taken_while_its_session_goes_on,
    a_name_is_free_again_at_the_end,
    names_of_different_users_do_not_meet,
    of_two_who_want_a_name_at_once_one_gets_it,
    a_refused_name_leaves_the_rest_of_its_unit_of_work,
    an_id_means_its_session_and_no_other,
    a_name_means_the_session_that_goes_on,
    a_name_that_nobody_has_now_means_the_last_who_had_it,
    a_name_that_two_users_have_is_in_doubt,
    the_beginning_of_an_id_or_a_name_is_enough,
    nothing_is_meant_by_what_nobody_has,
    a_listing_can_begin_with_the_newest,
    a_filter_limits_by_owner_queue_and_name,
)
