"""Watching: each change of a session, and everything that happens."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from sokovan.adapters.local.clock import SystemClock
from sokovan.api.routes.streams import watching
from sokovan.api.streaming import session_watch
from sokovan.domain.events import AgentEnrolled, KernelMoved, KernelsMoved
from sokovan.domain.ids import AgentId, KernelId, ScalingGroupName, SessionId
from sokovan.domain.lifecycle.kernel import FreeProof, KernelStatus, KernelTrigger
from sokovan.orchestrator.batch_writer import BatchWriter
from sokovan.orchestrator.sessions.verdict_cache import VerdictCache
from sokovan.ports.events import Delivery
from sokovan.scheduling.trace import Code, Verdict
from sokovan.testing.clock import VirtualClock
from sokovan.testing.stored_cluster import BY_AGENT
from tests.unit.api.api_harness import ADMIN, ApiHarness, Stream, api_harness, domain_admin, member, quick

pytestmark = pytest.mark.asyncio(loop_scope="module")

NORTH, SOUTH = member("north"), member("south")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api() -> AsyncIterator[ApiHarness]:
    """An API whose streams keep few events, and read the store again by events alone."""
    async with api_harness(streams=quick(queue_max=20, reread_s=3600)) as made:
        yield made


async def status_of(stream: Stream) -> str:
    event = await stream.event()
    assert event is not None
    assert event[0] == "session"
    return str(event[1]["status"])


async def happenings(stream: Stream, count: int) -> list[tuple[str, str, str]]:
    found = []
    for _ in range(count):
        event = await stream.event()
        assert event is not None
        found.append((event[1]["object"], event[1]["id"], event[1]["after"]))
    return found


async def connected(stream: Stream) -> str:
    """The place at which the stream begins."""
    first, _, place = (await stream.block() or "").partition("\nid: ")
    assert first == ": connected"
    return place


async def place_after(stream: Stream) -> str:
    """The place after the next event."""
    block = await stream.block() or ""
    return next(line.removeprefix("id: ") for line in block.splitlines() if line.startswith("id: "))


@pytest.mark.slow
async def test_a_watcher_sees_the_present_state_each_change_and_the_end(api: ApiHarness) -> None:
    await api.submit("watched", NORTH)
    async with api.stream("/sessions/watched/events", user=NORTH) as stream:
        assert await status_of(stream) == "pending"
        await api.cluster.place("watched", "a1")
        await api.flush()
        assert await status_of(stream) == "scheduled"
        await api.cluster.start("watched")
        await api.flush()
        while await status_of(stream) != "running":
            pass
        await api.cluster.move("watched", KernelTrigger.EXITED, BY_AGENT, exit_code=0)
        await api.flush()
        assert await status_of(stream) == "terminating"
        await api.cluster.free("watched", FreeProof.AGENT_TOMBSTONE)
        await api.flush()
        rest = await stream.rest()
        assert [(view["status"], view["exit_code"]) for _, view in rest] == [("terminated", 0)]


@pytest.mark.slow
async def test_a_watcher_hears_a_new_reason_as_soon_as_it_is_written(api: ApiHarness) -> None:
    await api.submit("hopeless", NORTH)
    book = VerdictCache(BatchWriter(api.cluster.store), VirtualClock())
    async with api.stream("/sessions/hopeless/events", user=NORTH) as stream:
        assert await status_of(stream) == "pending"
        await book.write(ScalingGroupName("default"), [Verdict(SessionId("hopeless"), Code.NEVER_FITS, "too large")])
        await api.flush()
        event = await stream.event()
        assert event is not None
        assert (event[1]["reason"], event[1]["reason_detail"]) == ("NEVER_FITS", "too large")


async def test_the_watchers_of_a_change_share_reads_of_the_store(
    api: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.submit("popular", NORTH)
    async with AsyncExitStack() as stack:
        streams = [
            await stack.enter_async_context(api.stream("/sessions/popular/events", user=NORTH)) for _ in range(9)
        ]
        assert [await status_of(stream) for stream in streams] == ["pending"] * 9
        await api.cluster.place("popular", "a1")
        reads, read = [], api.cluster.store.read

        async def counted(work: Any) -> Any:
            reads.append(work)
            return await read(work)

        async def as_it_is(_stream: object) -> None:
            """Keys are checked by reads as well."""

        monkeypatch.setattr(api.cluster.store, "read", counted)
        monkeypatch.setattr(api.app.state.context.streams, "require_key", as_it_is)
        await api.flush()
        assert [await status_of(stream) for stream in streams] == ["scheduled"] * 9
        # One that wakes while the read is under way must not get what is older: those of this kind share one more.
        assert 1 <= len(reads) <= 2


async def test_moves_of_kernels_of_a_large_session_are_collected_and_its_own_are_sent_at_once(
    api: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_PAUSE_TIMES", 1e9)
    monkeypatch.setattr(watching, "_PAUSE_MAX_S", 3600.0)
    monkeypatch.setattr(session_watch, "KERNELS_SHOWN", 1)
    await api.submit("pair", NORTH, kernels=2)
    session = (await api.cluster.session("pair")).session_id
    one = KernelMoved(
        at_ms=0,
        kernel_id=KernelId("one"),
        session_id=session,
        before=KernelStatus.PENDING,
        after=KernelStatus.PENDING,
        trigger="t",
    )
    hub = api.app.state.context.streams.hub
    async with api.stream("/sessions/pair/events", user=NORTH) as stream:
        assert await status_of(stream) == "pending"
        await api.call("POST", "/sessions/pair/cancel", user=NORTH)
        hub.dispatch(Delivery((one,)))
        listener = next(iter(hub._by_session[session]))
        while listener.woken.is_set():
            await SystemClock().sleep(0)
        assert listener.has_events  # it was woken, and has not read
        await api.flush()
        assert [view["status"] for _, view in await stream.rest()] == ["cancelled"]


async def test_an_ended_session_is_sent_once(api: ApiHarness) -> None:
    await api.submit("over", NORTH)
    await api.call("POST", "/sessions/over/cancel", user=NORTH)
    async with api.stream("/sessions/over/events", user=NORTH) as stream:
        assert [view["status"] for _, view in await stream.rest()] == ["cancelled"]


async def test_a_watcher_of_one_session_is_not_woken_by_others(api: ApiHarness) -> None:
    await api.submit("quiet", NORTH)
    await api.submit("loud", NORTH)
    async with api.stream("/sessions/quiet/events", user=NORTH) as stream:
        assert await status_of(stream) == "pending"
        await api.call("POST", "/sessions/loud/cancel", user=NORTH)
        await api.flush()
        await api.call("POST", "/sessions/quiet/cancel", user=NORTH)
        await api.flush()
        assert [view["id"] for _, view in await stream.rest()] == ["quiet"]


async def test_events_that_were_lost_make_a_watcher_look_again(api: ApiHarness) -> None:
    await api.submit("missed", NORTH)
    async with api.stream("/sessions/missed/events", user=NORTH) as stream:
        assert await status_of(stream) == "pending"
        await api.call("POST", "/sessions/missed/cancel", user=NORTH)
        # Nothing is published: the bus has lost it, and says so.
        api.app.state.context.streams.hub.dispatch(Delivery(lost=True))
        assert [view["status"] for _, view in await stream.rest()] == ["cancelled"]
    await api.flush()


@pytest.mark.slow
async def test_without_any_event_a_watcher_looks_from_time_to_time() -> None:
    async with api_harness(streams=quick(reread_s=0.05)) as api:
        await api.submit("unheard", NORTH)
        async with api.stream("/sessions/unheard/events", user=NORTH) as stream:
            assert await status_of(stream) == "pending"
            await api.call("POST", "/sessions/unheard/cancel", user=NORTH)
            assert [view["status"] for _, view in await stream.rest()] == ["cancelled"]


async def test_no_user_watches_sessions_of_others(api: ApiHarness) -> None:
    await api.submit("unseen", NORTH)
    assert (await api.get("/sessions/unseen/events", user=SOUTH)).status_code == 404


async def test_each_user_gets_events_of_own_objects_and_of_agents(api: ApiHarness) -> None:
    await api.flush()  # what happened before, in whatever order tests are run
    async with (
        api.stream("/events", user=NORTH) as north,
        api.stream("/events", user=domain_admin("south")) as south,
        api.stream("/events", user=ADMIN) as everything,
    ):
        for stream in (north, south, everything):
            await connected(stream)
        await api.submit("heard-n", NORTH)
        await api.submit("heard-s", SOUTH)
        for name in ("heard-n", "heard-s"):
            await api.call("POST", f"/sessions/{name}/cancel")
        await api.flush()
        await api.bus.publish([AgentEnrolled(at_ms=0, agent_id=AgentId("a9"), incarnation=1)])
        north_told = await happenings(north, 3)
        assert {(kind, name) for kind, name, _ in north_told} == {
            ("session", "heard-n"),
            ("kernel", "heard-n.0"),
            ("agent", "a9"),
        }
        assert {name for _, name, _ in await happenings(south, 3)} == {"heard-s", "heard-s.0", "a9"}
        assert len(await happenings(everything, 5)) == 5


async def test_who_watches_everything_hears_of_submissions_by_their_reason(api: ApiHarness) -> None:
    await api.flush()
    async with api.stream("/events", user=NORTH) as north, api.stream("/events", user=SOUTH) as south:
        for stream in (north, south):
            await connected(stream)
        await api.submit("waits-n", NORTH)
        book = VerdictCache(BatchWriter(api.cluster.store), VirtualClock())
        await book.write(ScalingGroupName("default"), [Verdict(SessionId("waits-n"), Code.NEVER_FITS, "too large")])
        await api.flush()
        event = await north.event()
        assert event is not None
        assert (event[1]["object"], event[1]["after"]) == ("verdicts", "NEVER_FITS")
        assert (event[1]["count"], event[1]["sessions"]) == (1, ["waits-n"])
        await api.bus.publish([AgentEnrolled(at_ms=0, agent_id=AgentId("a8"), incarnation=1)])
        assert await happenings(south, 1) == [("agent", "a8", "alive")]


@pytest.mark.slow
async def test_who_watches_everything_hears_of_submissions_before_the_scheduler_has_seen_them(api: ApiHarness) -> None:
    await api.flush()
    async with api.stream("/events", user=NORTH) as north, api.stream("/events", user=SOUTH) as south:
        for stream in (north, south):
            await connected(stream)
        one = {"name": "new-n", "command": ["true"]}
        first = (await api.call("POST", "/sessions", json=one, user=NORTH)).json()["id"]
        lines = b"".join(msgspec.json.encode({**one, "name": f"batch-{at}"}) + b"\n" for at in range(2))
        kind = {"content-type": "application/x-ndjson"}
        answer = await api.call("POST", "/sessions:batch", content=lines, headers=kind, user=NORTH)
        batch = [item["session"] for item in answer.json()["items"]]
        # What the bus delivers later is not told again.
        await api.flush()
        for wanted in ([first], batch):
            event = await north.event()
            assert event is not None
            assert (event[1]["object"], event[1]["id"], event[1]["trigger"]) == ("session", wanted[0], "submitted")
            assert (event[1]["count"], event[1]["sessions"]) == (len(wanted), wanted)
        await api.bus.publish([AgentEnrolled(at_ms=0, agent_id=AgentId("a7"), incarnation=1)])
        for stream in (north, south):
            assert await happenings(stream, 1) == [("agent", "a7", "alive")]


async def test_a_slow_client_gets_a_resync(api: ApiHarness) -> None:
    async with api.stream("/events") as stream:
        await connected(stream)
        enrolled = [AgentEnrolled(at_ms=0, agent_id=AgentId(f"a{number}"), incarnation=1) for number in range(50)]
        api.app.state.context.streams.hub.dispatch(Delivery(events=tuple(enrolled)))
        event = await stream.event()
        assert event is not None
        assert (event[0], event[1]["after"], event[1]["object"]) == ("resync", "resync", "stream")


def enrolled(name: str) -> AgentEnrolled:
    return AgentEnrolled(at_ms=0, agent_id=AgentId(name), incarnation=1)


async def test_events_that_come_together_are_sent_together(api: ApiHarness) -> None:
    await api.flush()
    async with api.stream("/events") as stream:
        await connected(stream)
        names = [f"c{number}" for number in range(15)]
        before = stream.parts
        await api.bus.publish([enrolled(name) for name in names])
        assert [name for _, name, _ in await happenings(stream, len(names))] == names
        assert stream.parts == before + 1


def started(session: SessionId, count: int) -> KernelsMoved:
    return KernelsMoved(
        at_ms=0,
        kernel_ids=tuple(KernelId(f"k{number}") for number in range(count)),
        session_id=session,
        before=KernelStatus.CREATING,
        after=KernelStatus.RUNNING,
        trigger="started",
    )


async def test_an_event_of_many_kernels_is_sent_as_one_of_each_to_who_may_see_them(api: ApiHarness) -> None:
    await api.submit("gang", NORTH)
    session = (await api.cluster.session("gang")).session_id
    await api.flush()
    many = started(session, 30)
    async with api.stream("/events", user=NORTH) as north, api.stream("/events", user=SOUTH) as south:
        for stream in (north, south):
            await connected(stream)
        before = north.parts
        await api.bus.publish([many, enrolled("d1")])
        expected = [*(("kernel", f"k{number}", "running") for number in range(30)), ("agent", "d1", "alive")]
        assert await happenings(north, 31) == expected
        assert north.parts == before + 1
        assert await happenings(south, 1) == [("agent", "d1", "alive")]


async def test_the_place_after_many_kernels_comes_with_the_last_of_them(api: ApiHarness) -> None:
    async with api.stream("/events") as stream:
        await connected(stream)
        await api.bus.publish([started(SessionId("any"), 20)])
        blocks = [await stream.block() or "" for _ in range(20)]
        # A stream that ends among them must not be resumed after them.
        assert [block.startswith("id: ") for block in blocks] == [False] * 19 + [True]


async def test_a_stream_is_resumed_after_the_last_event_of_the_one_before(api: ApiHarness) -> None:
    await api.flush()
    async with api.stream("/events") as stream:
        first = await connected(stream)
        await api.bus.publish([enrolled("b1")])
        second = await place_after(stream)
    await api.bus.publish([enrolled("b2")])
    await api.flush()
    for place, names in ((first, ["b1", "b2"]), (second, ["b2"])):
        async with api.stream("/events", headers={"last-event-id": place}) as stream:
            assert await connected(stream) == ""
            assert [name for _, name, _ in await happenings(stream, len(names))] == names


async def test_a_stream_that_cannot_be_resumed_begins_with_a_resync(api: ApiHarness) -> None:
    for place in ("another.7", "nonsense"):
        async with api.stream("/events", headers={"last-event-id": place}) as stream:
            await connected(stream)
            block = await stream.block() or ""
            assert "event: resync" in block
            # From there it can be resumed.
            assert "id: " in block
    async with api.stream("/events", headers={"last-event-id": "x" * 101}) as stream:
        await stream.block()
        assert stream.status == 422


@pytest.mark.slow
async def test_what_others_did_meanwhile_stays_hidden_from_who_resumes(api: ApiHarness) -> None:
    await api.flush()
    async with api.stream("/events", user=SOUTH) as stream:
        place = await connected(stream)
    await api.submit("secret-n", NORTH)
    await api.call("POST", "/sessions/secret-n/cancel")
    await api.flush()
    await api.bus.publish([enrolled("b3")])
    async with api.stream("/events", user=SOUTH, headers={"last-event-id": place}) as stream:
        await connected(stream)
        assert await happenings(stream, 1) == [("agent", "b3", "alive")]
