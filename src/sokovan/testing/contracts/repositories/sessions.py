"""Contract of `ports.repositories.sessions.Sessions`: enqueueing and reading."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.constraints.labels import LabelSelector
from sokovan.domain.errors import Conflict, IdempotencyConflict, ObjectNotFound
from sokovan.domain.ids import AccessKey, AgentId, KernelId, QueueName, ScalingGroupName, SessionId
from sokovan.domain.lifecycle.kernel import FreeProof, KernelStatus
from sokovan.domain.lifecycle.session import Goal, SessionStatus
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.owners.usage_history import UsageBy, UsageSeries, UsageWindow
from sokovan.domain.records import HistoryEntry, KernelSummary, SessionRecord, SpecSummary
from sokovan.domain.session import (
    EndPolicy,
    KernelSpec,
    LostPolicy,
    Mount,
    Partition,
    Preemption,
    SessionSpec,
    SessionType,
    TopologyConstraint,
    TopologyMode,
)
from sokovan.domain.slots import ResourceSlot
from sokovan.ports.repositories.sessions import RequestKey, SessionFilter, SessionProperty
from sokovan.ports.storage import UnitOfWork
from sokovan.testing.contracts import expect
from sokovan.testing.ledger_rows import ledger_rows
from sokovan.testing.stored_cluster import BY_USER, DEFAULT_GROUP, StoredCluster, refusal, session_spec

Check: TypeAlias = Callable[[StoredCluster], Awaitable[None]]
HELD = {"cpu": 1000, "mem": 1 << 30}


async def session_history(cluster: StoredCluster, name: str) -> list[HistoryEntry]:
    """The history of a session without its kernels."""
    told = await cluster.store.read(lambda unit: unit.sessions.history(SessionId(name)))
    return [entry for _, entry in told]


async def listed(
    cluster: StoredCluster, wanted: SessionFilter, *, limit: int = 99, after: int = 0
) -> list[SessionRecord]:
    """A page of sessions."""
    return list(await cluster.store.read(lambda unit: unit.sessions.page(wanted, limit=limit, after=after)))


async def enqueue_together(cluster: StoredCluster, specs: Sequence[SessionSpec]) -> None:
    """Enqueue several sessions in one unit of work."""

    async def work(unit: UnitOfWork) -> None:
        for spec in specs:
            await unit.sessions.enqueue(spec, BY_USER)

    await cluster.store.run(work)


async def a_new_session_is_pending_with_its_kernels(cluster: StoredCluster) -> None:
    """With goal RUN, and kernels in the order of their index."""
    name = cluster.new("s")
    record = await cluster.submit(name, kernels=12)
    expect((record.status, record.goal) == (SessionStatus.PENDING, Goal.RUN), "a new session does not wait to run")
    expect([kernel.kernel_id for kernel in record.kernels] == [f"{name}.{index}" for index in range(12)], "the order")
    expect([kernel.index for kernel in record.kernels] == list(range(12)), "kernels do not have their index")
    waiting = {(kernel.status, kernel.agent_id, kernel.sent) for kernel in record.kernels}
    expect(waiting == {(KernelStatus.PENDING, None, False)}, "a new kernel does not wait")
    expect(record == await cluster.session(name), "enqueue gave another record than get")


async def a_spec_is_read_as_it_was_stored(cluster: StoredCluster) -> None:
    """All fields are preserved."""
    name, first = cluster.new("s"), await cluster.submit(cluster.new("s"))
    kernels = tuple(
        KernelSpec(
            kernel_id=KernelId(f"{name}.{index}"),
            slots=ResourceSlot({"cpu": 1, "cuda.shares": 2**40}),
            group=group,
            image="registry/python:3.11",
            architecture="aarch64",
            labels={"rank": group, "näme": "välue ' \" \\ %s :x"},
            require={"zone": "a b"},
            priority=-5,
            preemptible=False,
            nominated=AgentId("a1"),
            command=("python", "-c", "print('ü\n')", ""),
            environment={"RANK": group, "EMPTY": ""},
        )
        for index, group in enumerate(("main", "worker", "worker"))
    )
    spec = SessionSpec(
        SessionId(name),
        kernels,
        session_type=SessionType.BATCH,
        owner=Owner("u", "g", "d", AccessKey("k")),
        queue=QueueName("q"),
        priority=7,
        min_kernels=2,
        group_minimums={"worker": 1},
        partitions=(Partition("p", by="rank", size=1, min_groups=2, topology=TopologyConstraint(TopologyMode.SOFT)),),
        topology=TopologyConstraint(TopologyMode.HARD, highest_tier="rack"),
        dependencies=(first.session_id,),
        starts_at_ms=5,
        labels={"team": "vision", "example.com/run": "a:1"},
        time_limit_s=6,
        preemptible=False,
        preemption=Preemption.NEVER,
        name=cluster.new("n"),
        mounts=(Mount("/data/sets", "/mnt/a b", read_only=False), Mount("/", "/host")),
        stop_grace_s=0,
        on_agent_lost=LostPolicy.REQUEUE,
        ends_with=EndPolicy.MAIN,
        tolerates_failures=True,
        gates=("data-ready",),
    )
    record = await cluster.store.run(lambda unit: unit.sessions.enqueue(spec, BY_USER))
    expect(record.spec == spec, "a new session has another spec than was given")
    expect(await cluster.session(name) == record, "a spec was changed in the store")
    expect([kernel.slots for kernel in record.kernels] == [one.slots for one in kernels], "slots were changed")


async def a_repeated_request_returns_its_session(cluster: StoredCluster) -> None:
    """In any status, and with any id of the repetition."""
    key, name = RequestKey("u1", cluster.new("key"), "digest"), cluster.new("s")
    await cluster.submit(name, request=key)
    await cluster.stop(name)
    again = await cluster.submit(cluster.new("s"), request=key)
    expect(again == await cluster.session(name), "a repeated request gave another session")


async def a_repeated_request_stores_nothing_new(cluster: StoredCluster) -> None:
    """Neither session nor history."""
    user, key = cluster.new("u"), RequestKey("u1", cluster.new("key"), "digest")
    for _ in range(3):
        await cluster.submit(cluster.new("s"), request=key, owner=Owner(user=user))
    found = await listed(cluster, SessionFilter(user=user))
    expect(len(found) == 1, f"one request stored {len(found)} sessions")
    expect(len(await session_history(cluster, found[0].session_id)) == 1, "a repeated request is in the history")


async def a_key_with_another_body_is_refused(cluster: StoredCluster) -> None:
    """Nothing is stored."""
    key, name = cluster.new("key"), cluster.new("s")
    await cluster.submit(cluster.new("s"), request=RequestKey("u1", key, "one"))
    await refusal(cluster.submit(name, request=RequestKey("u1", key, "other")), IdempotencyConflict)
    await refusal(cluster.session(name), ObjectNotFound)


async def keys_of_different_scopes_are_independent(cluster: StoredCluster) -> None:
    """The scope is part of the key."""
    key, first, second = cluster.new("key"), cluster.new("s"), cluster.new("s")
    await cluster.submit(first, request=RequestKey("u1", key, "one"))
    record = await cluster.submit(second, request=RequestKey("u2", key, "other"))
    expect(record.session_id == second, "the key of one sender hit that of another")


async def concurrent_equal_requests_create_one_session(cluster: StoredCluster) -> None:
    """All callers get the same one."""
    user, key = cluster.new("u"), RequestKey("u1", cluster.new("key"), "digest")
    names = [cluster.new("s") for _ in range(6)]
    records = await asyncio.gather(*(cluster.submit(one, request=key, owner=Owner(user=user)) for one in names))
    expect(len({record.session_id for record in records}) == 1, "callers of one request got different sessions")
    found = await listed(cluster, SessionFilter(user=user))
    expect(len(found) == 1, f"one request stored {len(found)} sessions")


async def concurrent_different_requests_with_one_key_create_one_session(cluster: StoredCluster) -> None:
    """One succeeds, the others get a conflict."""
    key = cluster.new("key")
    submitted = [cluster.submit(cluster.new("s"), request=RequestKey("u1", key, f"body {n}")) for n in range(4)]
    results = await asyncio.gather(*submitted, return_exceptions=True)
    refused = [result for result in results if isinstance(result, IdempotencyConflict)]
    expect(len(refused) == 3, f"of four requests with one key {len(refused)} were refused, not three")


async def an_existing_id_is_refused(cluster: StoredCluster) -> None:
    """Of a session and of a kernel; the existing one is unchanged."""
    name = cluster.new("s")
    before = await cluster.submit(name)
    await refusal(cluster.submit(name, kernels=2), Conflict)
    other = replace(session_spec(name), session_id=SessionId(cluster.new("s")))
    await refusal(cluster.store.run(lambda unit: unit.sessions.enqueue(other, BY_USER)), Conflict)
    expect(await cluster.session(name) == before, "a refused session changed the one that has the id")
    await refusal(cluster.session(other.session_id), ObjectNotFound)


async def references_of_a_session_must_exist(cluster: StoredCluster) -> None:
    """ObjectNotFound names the scaling group or the dependency."""
    name, missing = cluster.new("s"), cluster.new("x")
    error = await refusal(cluster.submit(name, scaling_group=missing), ObjectNotFound)
    expect(missing in error.message, "the refusal does not name the scaling group")
    there = (await cluster.submit(cluster.new("s"))).session_id
    error = await refusal(cluster.submit(name, dependencies=(there, SessionId(missing))), ObjectNotFound)
    expect(missing in error.message, "the refusal does not name the dependency")
    await refusal(cluster.session(name), ObjectNotFound)


async def sessions_are_listed_oldest_first(cluster: StoredCluster) -> None:
    """At most `limit`, and those of one unit of work in their order."""
    user = cluster.new("u")
    specs = [session_spec(cluster.new(prefix), owner=Owner(user=user)) for prefix in ("s", "b", "z", "a")]
    await enqueue_together(cluster, specs[:3])
    await enqueue_together(cluster, specs[3:])
    for limit in (2, 9):
        found = await listed(cluster, SessionFilter(user=user), limit=limit)
        expected = [spec.session_id for spec in specs][:limit]
        expect([record.session_id for record in found] == expected, "sessions are not listed oldest first")


async def a_listing_continues_after_a_place(cluster: StoredCluster) -> None:
    """The place of the last record of a page."""
    user = cluster.new("u")
    for _ in range(5):
        await cluster.submit(cluster.new("s"), owner=Owner(user=user))
    every = await listed(cluster, SessionFilter(user=user))
    pages, after = [], 0
    while found := await listed(cluster, SessionFilter(user=user), limit=2, after=after):
        pages.append(found)
        after = found[-1].place
    expect([len(page) for page in pages] == [2, 2, 1], f"the pages have {[len(page) for page in pages]} sessions")
    expect([record for page in pages for record in page] == every, "pages leave out or repeat a session")


async def pending_sessions_of_a_user_are_counted_up_to_a_limit(cluster: StoredCluster) -> None:
    """Those with a name; neither those of others nor those that have ended."""
    owner = Owner(user=cluster.new("u"))
    names = [cluster.new("s") for _ in range(4)]
    for name in names:
        await cluster.submit(name, owner=owner, name=name)
    await cluster.submit(cluster.new("s"), name=names[0])
    await cluster.stop(names[0])
    found = [
        await cluster.store.read(lambda unit, most=most: unit.sessions.pending_count(owner.user, most=most))  # type: ignore[misc]  # bound to this limit
        for most in (2, 9)
    ]
    expect(found == [2, 3], f"{found} were counted instead of 2 and 3")


async def sessions_are_counted_by_a_property(cluster: StoredCluster) -> None:
    """Those that match the filter, the most frequent values first."""
    owner, queue = Owner(user=cluster.new("u")), cluster.new("q")
    names = [cluster.new("s") for _ in range(3)]
    for name in names:
        await cluster.submit(name, owner=owner, queue=queue if name == names[2] else "default")
    await cluster.stop(names[0])
    mine = SessionFilter(user=owner.user)

    async def work(unit: UnitOfWork) -> list[dict[str, int]]:
        return [
            dict(await unit.sessions.counts(mine, SessionProperty.STATUS, most=9)),
            dict(await unit.sessions.counts(mine, SessionProperty.QUEUE, most=1)),
            dict(await unit.sessions.counts(replace(mine, queue=queue), SessionProperty.USER, most=9)),
            dict(await unit.sessions.counts(replace(mine, ids=[SessionId(names[1])]), SessionProperty.STATUS, most=9)),
            dict(await unit.sessions.counts(replace(mine, name="a b"), SessionProperty.STATUS, most=9)),
        ]

    found = await cluster.store.read(work)
    states = {"pending": 2, "cancelled": 1}
    expected = [states, {"default": 2}, {owner.user: 1}, {"pending": 1}, {}]
    expect(found == expected, f"the counts are {found} instead of {expected}")


async def sessions_are_found_by_the_time_in_which_they_were_alive(cluster: StoredCluster) -> None:
    """Those that had not ended at a time, and were submitted before another."""
    user = cluster.new("u")
    ended = await cluster.submit(cluster.new("s"), owner=Owner(user=user))
    await cluster.stop(ended.session_id)
    ended = await cluster.session(ended.session_id)
    await cluster.elapse(0.05)
    later = await cluster.submit(cluster.new("s"), owner=Owner(user=user))
    mine = SessionFilter(user=user)
    for wanted, expected in (
        (replace(mine, since_ms=ended.ended_ms), [ended, later]),
        (replace(mine, since_ms=later.submitted_ms), [later]),
        (replace(mine, until_ms=later.submitted_ms), [ended]),
        (replace(mine, until_ms=ended.submitted_ms), []),
    ):
        names = [one.session_id for one in await listed(cluster, wanted)]
        expect(names == [one.session_id for one in expected], f"{wanted} finds {names}")


async def _running(cluster: StoredCluster, owner: Owner, *, kernels: int = 1) -> SessionRecord:
    """A session that runs on an agent of its own."""
    agent, name = cluster.new("a"), cluster.new("s")
    await cluster.agent(agent)
    await cluster.submit(name, kernels=kernels, slots=HELD, owner=owner)
    await cluster.place(name, *[agent] * kernels)
    return await cluster.start(name)


async def held_slots_over_time_are_read_from_the_ledger(cluster: StoredCluster) -> None:
    """From the allocation to the proof of the end, by any owner; not those of others."""
    user, other = cluster.new("u"), cluster.new("u")
    record = await _running(cluster, Owner(user=user), kernels=2)
    await cluster.elapse(0.05)
    await cluster.stop(record.session_id)
    await cluster.free(record.session_id, FreeProof.AGENT_TOMBSTONE)
    await _running(cluster, Owner(user=other))
    [row] = [row for row in await ledger_rows(cluster.store, record.kernels[0].kernel_id) if row.slot == "mem"]
    if row.freed_ms is None:
        raise AssertionError("the row was not freed")
    # Three steps of 10 seconds; the slots were held in the second one.
    window = UsageWindow(row.held_ms - 15_000, row.held_ms + 15_000, 10_000)
    expected = round(2 * (row.freed_ms - row.held_ms) * (1 << 30) / 10_000)

    async def work(unit: UnitOfWork) -> list[Sequence[UsageSeries]]:
        mine = SessionFilter(user=user)
        found = [await unit.sessions.usage_history(mine, window, by) for by in UsageBy]
        return [*found, await unit.sessions.usage_history(replace(mine, queue="another"), window, UsageBy.ALL)]

    *found, nothing = await cluster.store.read(work)
    names = ["", "default", user, "default", DEFAULT_GROUP]
    for name, series in zip(names, found, strict=True):
        expect([one.slot for one in series] == sorted(HELD), f"the slots of {name} are {[one.slot for one in series]}")
        expect({one.name for one in series} == {name}, f"{series} is not of {name}")
        [memory] = [one for one in series if one.slot == "mem"]
        expect(memory.used == (0, expected, 0), f"{memory.used} instead of {expected} in the second step")
    expect(list(nothing) == [], f"{nothing} of another queue")


async def a_session_can_be_read_without_all_of_its_kernels(cluster: StoredCluster) -> None:
    """With its first kernels, with figures of all of them, and page by page."""
    name = cluster.new("s")
    record = await cluster.submit(name, kernels=10)

    async def work(unit: UnitOfWork) -> tuple[list[int], KernelSummary, list[list[int]]]:
        wanted = SessionFilter(ids=[record.session_id])
        [first] = await unit.sessions.summaries(wanted, limit=1, kernels_max=2)
        [named] = await unit.sessions.named(name, SessionFilter(), kernels_max=2)
        expect(first == named, "the name gives another summary")
        expect(first.spec == SpecSummary.of(record.spec), "the summary is not that of the spec")
        expect((first.kernels, first.version) == (record.kernels[:2], record.version), "not the first kernels")
        counts = (await unit.sessions.kernel_counts([record.session_id]))[record.session_id]
        pages, after = [], -1
        while found := await unit.sessions.kernels(record.session_id, limit=4, after=after):
            pages.append([one.index for one in found])
            after = found[-1].index
        return [one.index for one in first.kernels], counts, pages

    first, counts, pages = await cluster.store.read(work)
    expect(first == [0, 1], f"the kernels {first} are not the first two")
    expect(counts == KernelSummary.of(record.kernels), f"the figures are {counts}")
    expect(pages == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]], f"the pages have the kernels {pages}")


async def a_filter_limits_by_each_of_its_fields(cluster: StoredCluster) -> None:
    """Status, scaling group, user and ids, alone and together."""
    group, user = ScalingGroupName(cluster.new("group")), cluster.new("u")
    await cluster.put(ScalingGroup(name=group))
    here, there, ended = cluster.new("s"), cluster.new("s"), cluster.new("s")
    await cluster.submit(here, owner=Owner(user=user))
    await cluster.submit(there, owner=Owner(user=user), scaling_group=group)
    await cluster.submit(ended, owner=Owner(user=user))
    await cluster.stop(ended)
    cases: list[tuple[SessionFilter, list[str]]] = [
        (SessionFilter(user=user), [here, there, ended]),
        (SessionFilter(user=user, scaling_group=group), [there]),
        (SessionFilter(scaling_group=group), [there]),
        (SessionFilter(user=user, statuses=[SessionStatus.CANCELLED, SessionStatus.RUNNING]), [ended]),
        (SessionFilter(ids=[SessionId(here), SessionId(ended)]), [here, ended]),
        (SessionFilter(ids=[SessionId(here)], scaling_group=group), []),
        (SessionFilter(user=user, evicted_for="a_booking"), []),
    ]
    for wanted, names in cases:
        found = await listed(cluster, wanted)
        expect([record.session_id for record in found] == names, f"{wanted} gives other sessions")


async def a_filter_by_labels_is_exact_on_every_page(cluster: StoredCluster) -> None:
    """Names, values and combinations of labels; pages are full."""
    user = cluster.new("u")
    labels = [{"team": "vision", "a.b/c": "1"}, {}, {"team": "vision", "nightly": ""}, {"team": "audio"}, {"team": ""}]
    names = [cluster.new("s") for _ in labels]
    for name, given in zip(names, labels, strict=True):
        await cluster.submit(name, owner=Owner(user=user), labels=given)
    cases: list[tuple[tuple[LabelSelector, ...], list[int]]] = [
        ((), [0, 1, 2, 3, 4]),
        ((LabelSelector("team", "vision"),), [0, 2]),
        ((LabelSelector("team"),), [0, 2, 3, 4]),
        ((LabelSelector("team", ""),), [4]),
        ((LabelSelector("a.b/c", "1"),), [0]),
        ((LabelSelector("a"),), []),
        ((LabelSelector("nightly"), LabelSelector("team", "vision")), [2]),
        ((LabelSelector("team", "vision"), LabelSelector("team", "audio")), []),
    ]
    for selectors, places in cases:
        wanted, found, after = SessionFilter(user=user, labels=selectors), [], 0
        while page := await listed(cluster, wanted, limit=2, after=after):
            found += [record.session_id for record in page]
            after = page[-1].place
            expect(len(page) == 2 or len(found) == len(places), f"{selectors} gives a page that is not full")
        expect(found == [names[place] for place in places], f"{selectors} gives {found}")


async def words_are_found_in_what_a_session_is_known_by(cluster: StoredCluster) -> None:
    """Each of them, as a part, in any case and literally; pages are full."""
    user, queue = cluster.new("Ada_user"), cluster.new("q-research")
    called = ["train-100", "train_100", "Sweep.1", ""]
    names = [cluster.new("s") for _ in called]
    for name, given in zip(names, called, strict=True):
        await cluster.submit(name, owner=Owner(user=user), queue=QueueName(queue), name=given)
    cases: list[tuple[tuple[str, ...], list[int]]] = [
        (("train",), [0, 1]),
        (("TRAIN", "100"), [0, 1]),
        (("n_1",), [1]),
        (("%",), []),
        (("sweep", "train"), []),
        (("sweep", "aDA_u"), [2]),
        ((names[3].upper(),), [3]),
        ((queue[1:],), [0, 1, 2, 3]),
        (("tr\u00e4in",), []),
        (("\0",), []),
    ]
    for words, places in cases:
        wanted, found, after = SessionFilter(user=user, words=words), list[str](), 0
        while page := await listed(cluster, wanted, limit=1, after=after):
            found += [record.session_id for record in page]
            after = page[-1].place
        expect(found == [names[place] for place in places], f"{words} gives {found}")
        counts = await _by_queue(cluster, wanted)
        expect(counts == ({queue: len(places)} if places else {}), f"{words} are counted as {counts}")


async def _by_queue(cluster: StoredCluster, wanted: SessionFilter) -> Mapping[str, int]:
    return await cluster.store.read(lambda unit: unit.sessions.counts(wanted, SessionProperty.QUEUE, most=9))


async def changes_since_a_mark_are_reported(cluster: StoredCluster) -> None:
    """A cache of sessions misses no change, even if it commits late."""
    old, new = cluster.new("s"), cluster.new("s")
    await cluster.submit(old)
    mark, named = await cluster.store.read(lambda unit: unit.sessions.changed(None))
    expect(not named, "sessions are named without a mark")
    await cluster.submit(new)
    await cluster.stop(old)
    later, named = await cluster.store.read(lambda unit: unit.sessions.changed(mark))
    for name in (old, new):
        record = await cluster.session(name)
        expect(named.get(record.session_id) == record.version, f"{name} was written and is not named as it is")
    await cluster.stop(new)
    _, named = await cluster.store.read(lambda unit: unit.sessions.changed(later))
    expect(new in named, "a change after the second mark is not named")


async def a_checkpoint_does_not_go_back_and_is_not_in_the_future(cluster: StoredCluster) -> None:
    """Ended and unknown sessions are skipped."""
    name, over = cluster.new("s"), cluster.new("s")
    start_ms = (await cluster.submit(name)).submitted_ms
    await cluster.submit(over)
    await cluster.stop(over)
    ids = [SessionId(one) for one in (name, over, cluster.new("unknown"))]

    async def saved(at_ms: int) -> tuple[list[str], int | None]:
        changed = await cluster.store.run(lambda unit: unit.sessions.save_checkpoints(dict.fromkeys(ids, at_ms)))
        return list(changed), (await cluster.session(name)).checkpoint_ms

    expect(await saved(start_ms - 5000) == ([name], start_ms - 5000), "the first checkpoint is not stored")
    expect(await saved(start_ms - 6000) == ([], start_ms - 5000), "a checkpoint went back")
    changed, at_ms = await saved(start_ms + 2**40)
    expect(changed == [name] and at_ms is not None and start_ms <= at_ms < start_ms + 2**40, f"it is at {at_ms}")


CHECKS: tuple[Check, ...] = (
    a_new_session_is_pending_with_its_kernels,
    a_spec_is_read_as_it_was_stored,
    a_repeated_request_returns_its_session,
    a_repeated_request_stores_nothing_new,
    a_key_with_another_body_is_refused,
    keys_of_different_scopes_are_independent,
    concurrent_equal_requests_create_one_session,
    concurrent_different_requests_with_one_key_create_one_session,
    an_existing_id_is_refused,
    references_of_a_session_must_exist,
    sessions_are_listed_oldest_first,
    a_listing_continues_after_a_place,
    pending_sessions_of_a_user_are_counted_up_to_a_limit,
    sessions_are_counted_by_a_property,
    sessions_are_found_by_the_time_in_which_they_were_alive,
    held_slots_over_time_are_read_from_the_ledger,
    a_session_can_be_read_without_all_of_its_kernels,
    a_filter_limits_by_each_of_its_fields,
    a_filter_by_labels_is_exact_on_every_page,
    words_are_found_in_what_a_session_is_known_by,
    changes_since_a_mark_are_reported,
    a_checkpoint_does_not_go_back_and_is_not_in_the_future,
)
