"""Following the output of all kernels of a session."""

from __future__ import annotations

import base64
import itertools
from typing import Any

import pytest

from sokovan.api.streaming.log_streams import ROUNDS_WITHOUT_END, offsets_text, read_offsets
from sokovan.domain.ids import AgentId, KernelId
from sokovan.domain.lifecycle.kernel import FreeProof, KernelTrigger
from sokovan.domain.problems import InvalidRequest
from sokovan.ports.runtime import LogPart
from sokovan.testing.stored_cluster import BY_AGENT
from tests.unit.api.api_harness import ApiHarness, Stream, member

NORTH = member("north")


def text_of(event: tuple[str, Any] | None) -> tuple[int, bytes, bool]:
    assert event is not None
    name, chunk = event
    assert name == "log"
    return chunk["kernel"], base64.b64decode(chunk["data"]), chunk["end"]


async def log_events(stream: Stream) -> list[tuple[int, bytes, bool]]:
    return [text_of(event) for event in await stream.rest()]


def test_places_are_written_and_read_back() -> None:
    assert offsets_text({1: 456, 0: 123}) == "0:123,1:456"
    assert read_offsets("0:123,1:456") == {0: 123, 1: 456}


@pytest.mark.parametrize("text", ["", "x", "1", "1:", "0:1,", "0:-1", "0:9999999999999999999", "٣:1"])
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="last-event-id"):
        read_offsets(text)


@pytest.mark.asyncio(loop_scope="module")
class TestFollowing:
    """Streams of output."""

    async def test_existing_output_is_sent_and_the_stream_ends(self, api: ApiHarness) -> None:
        await api.run("there", NORTH, kernels=2)
        api.agents.says("there.0", b"zero\n")
        api.agents.says("there.1", b"one\n")
        async with api.stream("/sessions/there/log", user=NORTH) as stream:
            assert await log_events(stream) == [(0, b"zero\n", False), (1, b"one\n", False)]

    async def test_who_does_not_follow_a_kernel_that_writes_without_end_gets_what_there_is(
        self, api: ApiHarness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await api.run("flood", NORTH)
        api.agents.says("flood.0", b"begin")
        read, reads = api.agents.read_log, itertools.count()

        async def writes_more(*args: Any, **options: Any) -> LogPart:
            assert next(reads) < 10_000, "the stream has no end"
            api.agents.says("flood.0", b"more")
            return await read(*args, **options)

        monkeypatch.setattr(api.agents, "read_log", writes_more)
        async with api.stream("/sessions/flood/log", user=NORTH) as stream:
            parts = await log_events(stream)
        assert len(parts) >= ROUNDS_WITHOUT_END
        assert not parts[-1][2], "the kernel has not ended"

    async def test_a_follower_hears_what_comes_later_until_the_end(self, api: ApiHarness) -> None:
        await api.run("later", NORTH)
        api.agents.says("later.0", b"first ")
        async with api.stream("/sessions/later/log?follow=true", user=NORTH) as stream:
            assert text_of(await stream.event()) == (0, b"first ", False)
            api.agents.says("later.0", b"second")
            assert text_of(await stream.event()) == (0, b"second", False)
            api.agents.says("later.0", ends=True)
            assert await log_events(stream) == [(0, b"", True)]

    async def test_a_kernel_that_has_not_started_is_waited_for(self, api: ApiHarness) -> None:
        await api.submit("pending", NORTH)
        async with api.stream("/sessions/pending/log?follow=true", user=NORTH) as stream:
            await api.cluster.place("pending", "a1")
            await api.cluster.start("pending")
            api.agents.says("pending.0", b"at last", ends=True)
            await api.flush()
            assert await log_events(stream) == [(0, b"at last", True)]

    async def test_a_kernel_that_has_not_started_has_nothing_for_who_does_not_follow(self, api: ApiHarness) -> None:
        await api.submit("silent", NORTH)
        async with api.stream("/sessions/silent/log", user=NORTH) as stream:
            assert await log_events(stream) == []

    async def test_a_session_that_is_cancelled_ends_its_followers(self, api: ApiHarness) -> None:
        await api.submit("cancelled", NORTH)
        async with api.stream("/sessions/cancelled/log?follow=true", user=NORTH) as stream:
            await api.call("POST", "/sessions/cancelled/cancel", user=NORTH)
            await api.flush()
            assert await log_events(stream) == [(0, b"", True)]

    async def test_one_kernel_alone_may_be_followed(self, api: ApiHarness) -> None:
        await api.run("one-of-two", NORTH, kernels=2)
        api.agents.says("one-of-two.0", b"zero")
        api.agents.says("one-of-two.1", b"one", ends=True)
        async with api.stream("/sessions/one-of-two/log?follow=true&kernel=1", user=NORTH) as stream:
            assert await log_events(stream) == [(1, b"one", True)]

    async def test_a_tail_begins_with_the_last_lines(self, api: ApiHarness) -> None:
        await api.run("tailed", NORTH)
        api.agents.says("tailed.0", b"1\n2\n3\n", ends=True)
        async with api.stream("/sessions/tailed/log?tail=2", user=NORTH) as stream:
            assert await log_events(stream) == [(0, b"2\n3\n", True)]

    async def test_a_stream_that_broke_goes_on_where_it_was(self, api: ApiHarness) -> None:
        await api.run("broken", NORTH, kernels=2)
        api.agents.says("broken.0", b"abcdef", ends=True)
        api.agents.says("broken.1", b"xyz", ends=True)
        async with api.stream("/sessions/broken/log", user=NORTH) as stream:
            block = await stream.block() or ""
            assert "id: 0:6" in block
        async with api.stream("/sessions/broken/log", user=NORTH, headers={"last-event-id": "0:4,1:3"}) as stream:
            assert await log_events(stream) == [(0, b"ef", True), (1, b"", True)]

    async def test_a_machine_that_stays_away_ends_the_stream_with_a_problem(
        self, api: ApiHarness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sokovan.api.streaming.log_streams.UNREACHABLE_S", 0.05)
        await api.run("away", NORTH)
        api.agents.says("away.0", b"before")
        async with api.stream("/sessions/away/log?follow=true", user=NORTH) as stream:
            assert text_of(await stream.event()) == (0, b"before", False)
            api.agents.away.add(AgentId("a1"))
            try:
                name, problem = (await stream.rest())[-1]
            finally:
                api.agents.away.clear()
            assert (name, problem["code"]) == ("problem", "agent-unreachable")

    async def test_output_that_is_cleared_away_meanwhile_ends_the_stream(self, api: ApiHarness) -> None:
        await api.run("cleared", NORTH)
        api.agents.says("cleared.0", b"last words")
        async with api.stream("/sessions/cleared/log?follow=true", user=NORTH) as stream:
            assert text_of(await stream.event()) == (0, b"last words", False)
            await api.cluster.move("cleared", KernelTrigger.EXITED, BY_AGENT, exit_code=0)
            await api.cluster.free("cleared", FreeProof.AGENT_TOMBSTONE)
            del api.agents.logs[KernelId("cleared.0")]
            await api.flush()
            assert await log_events(stream) == [(0, b"", True)]

    async def test_a_silent_kernel_is_polled_at_most_ten_times_a_second(self, api: ApiHarness) -> None:
        limits = api.app.state.context.settings.streams
        assert type(limits)().log_poll_s == 0.1
