"""Contract of `ports.repositories.sessions.Sessions.changed`."""

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
    """The next mark, and the sessions written since."""
    return await cluster.store.read(lambda unit: unit.sessions.changed(since))


async def the_first_call_reports_no_session(cluster: StoredCluster) -> None:
    """It returns a mark to start from."""
    await cluster.submit(cluster.new("s"))
    mark, sessions = await changed(cluster, None)
    expect(sessions == {}, "without a mark a session is reported")
    expect((await changed(cluster, mark))[0] >= mark, "a mark is smaller than the last one")


async def a_written_session_is_reported_with_its_version(cluster: StoredCluster) -> None:
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
    """Everything since is reported, with the current version."""
    mark, _ = await changed(cluster, None)
    records = [await placed(cluster) for _ in range(3)]
    await changed(cluster, mark)
    await cluster.move(records[0].session_id, KernelTrigger.IMAGE_READY)
    _, sessions = await changed(cluster, mark)
    expected = {one.session_id: (await cluster.session(one.session_id)).version for one in records}
    expect(expected.items() <= sessions.items(), f"{sessions} were written, not {expected}")


async def a_rolled_back_write_is_not_reported(cluster: StoredCluster) -> None:
    """The session was not written."""
    spec = session_spec(cluster.new("s"))
    mark, _ = await changed(cluster, None)

    async def work(unit: UnitOfWork) -> None:
        await unit.sessions.enqueue(spec, BY_USER)
        raise LookupError

    await refusal(cluster.store.run(work), LookupError)
    _, sessions = await changed(cluster, mark)
    expect(spec.session_id not in sessions, "what was rolled back counts as written")


async def a_late_commit_is_not_missed(cluster: StoredCluster) -> None:
    """One that began before a mark and commits after it is reported by the next call."""
    if cluster.store.database.in_memory:
        return  # one connection: readers wait for the writer
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
    the_first_call_reports_no_session,
    a_written_session_is_reported_with_its_version,
    a_mark_can_be_used_again,
    a_rolled_back_write_is_not_reported,
    a_late_commit_is_not_missed,
)
