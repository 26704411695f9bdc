"""The promises of `ports.sessions.Sessions.changed`: what was written since."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.kernel import FreeProof, KernelTrigger
from sokovan.ports.storage import UnitOfWork
from sokovan.testing.contracts import expect
from sokovan.testing.contracts.sessions.session_moves import placed
from sokovan.testing.stored_cluster import BY_USER, StoredCluster, refusal, session_spec

Check: TypeAlias = Callable[[StoredCluster], Awaitable[None]]


async def changed(cluster: StoredCluster, since: int | None) -> tuple[int, Mapping[SessionId, int]]:
    """The next mark, and what was written since."""
    return await cluster.store.read(lambda unit: unit.sessions.changed(since))


async def a_first_question_names_nobody(cluster: StoredCluster) -> None:
    """It gives a place to begin."""
    await cluster.submit(cluster.new("s"))
    mark, sessions = await changed(cluster, None)
    expect(sessions == {}, "without a mark somebody is named")
    expect((await changed(cluster, mark))[0] >= mark, "a mark lies before the last")


async def whoever_is_written_is_named_with_the_version(cluster: StoredCluster) -> None:
    """New, allocated, moved, stopped, freed."""
    agent, name = cluster.new("a"), cluster.new("s")
    await cluster.agent(agent)
    await cluster.submit(cluster.new("s"))
    mark, _ = await changed(cluster, None)

    async def stop() -> None:
        await cluster.stop(name)
        await cluster.free(name, FreeProof.NEVER_SENT)

    steps: list[Callable[[], Awaitable[object]]] = [
        lambda: cluster.submit(name),
        lambda: cluster.place(name, agent),
        lambda: cluster.move(name, KernelTrigger.IMAGE_READY),
        stop,
    ]
    for number, step in enumerate(steps):
        await step()
        mark, sessions = await changed(cluster, mark)
        record = await cluster.session(name)
        expect(sessions.get(record.session_id) == record.version, f"after step {number} {sessions} were written")


async def a_mark_can_be_used_again(cluster: StoredCluster) -> None:
    """Everything since is named, with the version it has now."""
    mark, _ = await changed(cluster, None)
    records = [await placed(cluster) for _ in range(3)]
    await changed(cluster, mark)
    await cluster.move(records[0].session_id, KernelTrigger.IMAGE_READY)
    _, sessions = await changed(cluster, mark)
    expected = {one.session_id: (await cluster.session(one.session_id)).version for one in records}
    expect(expected.items() <= sessions.items(), f"{sessions} were written, not {expected}")


async def what_is_rolled_back_is_not_named(cluster: StoredCluster) -> None:
    """Nobody wrote it."""
    spec = session_spec(cluster.new("s"))
    mark, _ = await changed(cluster, None)

    async def work(unit: UnitOfWork) -> None:
        await unit.sessions.enqueue(spec, BY_USER)
        raise LookupError

    await refusal(cluster.store.run(work), LookupError)
    _, sessions = await changed(cluster, mark)
    expect(spec.session_id not in sessions, "what was rolled back counts as written")


async def a_unit_of_work_that_ends_late_is_not_missed(cluster: StoredCluster) -> None:
    """One that began before a mark and commits after it is named at the next."""
    if cluster.store.database.in_memory:
        return  # one connection: whoever asks waits for the writer
    spec, written, go_on = session_spec(cluster.new("s")), asyncio.Event(), asyncio.Event()

    async def slow(unit: UnitOfWork) -> None:
        await unit.sessions.enqueue(spec, BY_USER)
        written.set()
        await go_on.wait()

    task = asyncio.ensure_future(cluster.store.run(slow))
    await written.wait()
    mark, during = await changed(cluster, None)
    go_on.set()
    await task
    _, after = await changed(cluster, mark)
    expect(spec.session_id not in during, "what is not committed is named")
    expect(spec.session_id in after, "a unit of work that ended late was missed")


CHECKS: tuple[Check, ...] = (
    a_first_question_names_nobody,
    whoever_is_written_is_named_with_the_version,
    a_mark_can_be_used_again,
    what_is_rolled_back_is_not_named,
    a_unit_of_work_that_ends_late_is_not_missed,
)
