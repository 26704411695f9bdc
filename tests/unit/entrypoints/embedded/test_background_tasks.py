"""Background tasks: an early end is logged, and the agent's link is awaited."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from sokovan.entrypoints.agent import AgentOptions
from sokovan.entrypoints.embedded import background_tasks
from sokovan.entrypoints.embedded.background_tasks import start_agent, start_task


def options(root: Path) -> AgentOptions:
    # No server listens on port 1.
    return AgentOptions("ws://127.0.0.1:1", "an-agent-key", root=root, name="here")


async def test_an_early_end_is_logged_with_its_reason() -> None:
    logged: list[str] = []

    async def fail() -> None:
        raise ZeroDivisionError("inside")

    async with AsyncExitStack() as stack:
        # The callback of `start_task` runs before that of `asyncio.wait`.
        await asyncio.wait([start_task(stack, fail(), name="the fleet", log=logged.append)])
        assert logged == ["the fleet has ended: ZeroDivisionError('inside')"]


async def test_a_task_that_runs_to_the_end_is_cancelled_silently() -> None:
    logged: list[str] = []
    async with AsyncExitStack() as stack:
        task = start_task(stack, asyncio.Event().wait(), name="the fleet", log=logged.append)  # type: ignore[arg-type]  # what it gives does not matter
    assert task.cancelled()
    assert logged == []


async def test_an_agent_that_has_a_link_is_said_without_more(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        summary = await start_agent(options(tmp_path), stack, connected=lambda _id: True, log=lambda _line: None)
    assert summary.startswith("here: ")
    assert "NOT LINKED" not in summary


async def test_an_agent_without_a_link_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_tasks, "LINK_TIMEOUT_S", 1.0)
    logged: list[str] = []
    async with AsyncExitStack() as stack:
        summary = await start_agent(options(tmp_path), stack, connected=lambda _id: False, log=logged.append)
    assert "NOT LINKED: ws://127.0.0.1:1: " in summary
    assert any("127.0.0.1:1" in line for line in logged)
