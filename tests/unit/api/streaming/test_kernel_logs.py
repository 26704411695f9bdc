"""Reads kernel logs from agents in chunks."""

from __future__ import annotations

import base64
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.api.errors import LogGone
from sokovan.api.streaming.kernel_logs import PIECE, TAIL_BYTES_MAX, KernelLogs, log_chunk
from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.domain.lifecycle.kernel import KernelStatus
from sokovan.domain.records import KernelRecord
from sokovan.domain.slots import NO_SLOTS
from sokovan.ports.agent_gateway import AgentUnreachable
from sokovan.ports.runtime import LogPart
from tests.unit.api.fake_agents import FakeAgents

A1 = AgentId("a1")
RUNNING = KernelRecord(
    KernelId("k"), SessionId("s"), 0, KernelStatus.RUNNING, 1, NO_SLOTS, agent_id=A1, incarnation=1, sent=True
)
ENDED = replace(RUNNING, status=KernelStatus.TERMINATED)
WAITING = replace(RUNNING, status=KernelStatus.PENDING, agent_id=None, sent=False)


def agents_with_output(content: bytes = b"", *, ends: bool = False) -> FakeAgents:
    made = FakeAgents()
    made.says("k", content, ends=ends)
    return made


async def test_a_piece_is_read_from_the_kernels_machine() -> None:
    agents = agents_with_output(b"hello")
    assert await KernelLogs(agents).read(RUNNING, offset=1, limit=3) == LogPart(1, b"ell")
    assert agents.calls == [("read", "a1", "k", 1, 1, 3)]


@pytest.mark.parametrize(
    "kernel",
    [
        WAITING,
        replace(RUNNING, status=KernelStatus.PREPARED, sent=False),
        replace(RUNNING, kernel_id=KernelId("unknown"), status=KernelStatus.CREATING),
    ],
)
async def test_a_kernel_that_has_not_started_has_said_nothing_yet(kernel: KernelRecord) -> None:
    assert await KernelLogs(agents_with_output()).read(kernel, offset=0) is None


async def test_a_kernel_that_never_ran_says_nothing_for_good() -> None:
    withdrawn = replace(WAITING, status=KernelStatus.CANCELLED)
    assert await KernelLogs(agents_with_output()).read(withdrawn, offset=0) == LogPart(0, b"", end=True)
    unsent = replace(ENDED, sent=False)
    assert await KernelLogs(agents_with_output()).read(unsent, offset=0) == LogPart(0, b"", end=True)


async def test_output_that_was_cleared_away_is_gone() -> None:
    with pytest.raises(LogGone, match="agent a1"):
        await KernelLogs(FakeAgents()).read(ENDED, offset=0)


async def test_a_machine_that_is_away_is_said_to_be() -> None:
    agents = agents_with_output(b"x")
    agents.away.add(A1)
    with pytest.raises(AgentUnreachable):
        await KernelLogs(agents).read(RUNNING, offset=0)


def last_lines(content: bytes, lines: int) -> bytes:
    """The last lines, by the slow and obvious way."""
    return b"".join(content.splitlines(keepends=True)[-lines:]) if lines else b""


@pytest.mark.parametrize("lines", [0, 1, 2, 3, 100])
@pytest.mark.parametrize("content", [b"", b"a", b"a\n", b"a\nb\nc\n", b"a\nb\nc", b"\n\n\n", b"x" * 100 + b"\ny"])
async def test_a_tail_begins_with_the_first_of_its_lines(content: bytes, lines: int) -> None:
    begin = await KernelLogs(agents_with_output(content)).tail(RUNNING, lines)
    assert content[begin:] == last_lines(content, lines)


@given(st.lists(st.integers(min_value=0, max_value=40_000), max_size=12), st.integers(min_value=0, max_value=14))
def test_a_tail_of_a_long_log_is_found_too(lengths: list[int], lines: int) -> None:
    content = b"".join(b"x" * length + b"\n" for length in lengths)
    coroutine = KernelLogs(agents_with_output(content)).tail(RUNNING, lines)
    with pytest.raises(StopIteration) as done:
        coroutine.send(None)  # nothing in it waits
    assert content[done.value.value :] == last_lines(content, lines)


async def test_a_tail_reaches_back_no_further_than_what_is_kept() -> None:
    agents = agents_with_output(b"a\n" * PIECE)
    agents.logs[KernelId("k")].dropped = PIECE
    assert await KernelLogs(agents).tail(RUNNING, 10**6) == PIECE


@pytest.mark.slow
async def test_a_tail_without_line_breaks_is_cut() -> None:
    agents = agents_with_output(b"x" * (TAIL_BYTES_MAX + 3 * PIECE))
    begin = await KernelLogs(agents).tail(RUNNING, 1)
    assert TAIL_BYTES_MAX <= len(agents.logs[KernelId("k")].content) - begin <= TAIL_BYTES_MAX + PIECE


async def test_a_tail_of_what_has_not_started_begins_at_the_beginning() -> None:
    assert await KernelLogs(agents_with_output()).tail(WAITING, 5) == 0


def test_a_piece_travels_as_base64_with_its_place() -> None:
    chunk = log_chunk(replace(RUNNING, index=3), LogPart(10, b"\xff\x00", end=True))
    assert (chunk.kernel, chunk.offset, chunk.next_offset, chunk.end) == (3, 10, 12, True)
    assert base64.b64decode(chunk.data) == b"\xff\x00"


async def test_the_end_of_a_silent_kernel_is_found_with_one_question() -> None:
    agents = agents_with_output()
    assert await KernelLogs(agents).tail(RUNNING, 200) == 0
    assert agents.calls == [("read", "a1", "k", 1, 0, 1)]
