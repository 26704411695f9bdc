"""Background tasks: an early end is logged, and the agent's link is awaited."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from sokovan.entrypoints.agent import AgentOptions
from sokovan.entrypoints.embedded import background_tasks
from sokovan.entrypoints.embedded.background_tasks import ComponentEnded, keep_running, start_agent, start_task
from sokovan.testing.clock import VirtualClock


def options(root: Path) -> AgentOptions:
    # No server listens on port 1.
    return AgentOptions("ws://127.0.0.1:1", "an-agent-key", root=root, name="here")


def ignore(_error: ComponentEnded) -> None:
    """The end of an agent is not looked at."""


async def test_an_early_end_is_logged_with_its_reason_and_fatal() -> None:
    logged: list[str] = []
    ended: list[ComponentEnded] = []

    async def fail() -> None:
        raise ZeroDivisionError("inside")

    async with AsyncExitStack() as stack:
        # The callback of `start_task` runs before that of `asyncio.wait`.
        await asyncio.wait([start_task(stack, fail(), name="the fleet", log=logged.append, fatal=ended.append)])
        assert logged == ["the fleet has ended: ZeroDivisionError('inside')"]
        assert [one.message for one in ended] == logged


async def test_a_task_that_runs_to_the_end_is_cancelled_silently() -> None:
    logged: list[str] = []
    ended: list[ComponentEnded] = []
    async with AsyncExitStack() as stack:
        work = asyncio.Event().wait()
        task = start_task(stack, work, name="the fleet", log=logged.append, fatal=ended.append)  # type: ignore[arg-type]  # what it gives does not matter
    assert task.cancelled()
    assert (logged, ended) == ([], [])


async def test_a_task_that_is_kept_running_starts_again_after_growing_pauses_or_at_once_if_it_lasted() -> None:
    clock, logged, starts = VirtualClock(), list[str](), list[int]()

    async def work() -> None:
        starts.append(clock.monotonic_ms())
        if len(starts) == 4:
            await clock.sleep(100)
        raise ZeroDivisionError("inside")

    async with AsyncExitStack() as stack:
        keep_running(stack, work, name="the removal", log=logged.append, clock=clock)
        await clock.advance(200)
    begun = starts[0]
    assert [one - begun for one in starts[:6]] == [0, 1000, 3000, 7000, 107_000, 108_000]
    assert logged[0] == "the removal has ended: ZeroDivisionError('inside'); it starts again in 1 s"
    assert logged[3].endswith("it starts again")


async def test_an_agent_that_has_a_link_is_said_without_more(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        summary = await start_agent(
            options(tmp_path), stack, connected=lambda _id: True, log=lambda _line: None, fatal=ignore
        )
    assert summary.startswith("here: ")
    assert "NOT LINKED" not in summary


@pytest.mark.slow
async def test_an_agent_without_a_link_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_tasks, "LINK_TIMEOUT_S", 0.0)
    logged: list[str] = []
    async with AsyncExitStack() as stack:
        summary = await start_agent(
            options(tmp_path), stack, connected=lambda _id: False, log=logged.append, fatal=ignore
        )
    assert "NOT LINKED: ws://127.0.0.1:1: " in summary
    assert any("127.0.0.1:1" in line for line in logged)
