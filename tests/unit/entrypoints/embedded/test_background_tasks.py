"""What works beside the manager: its early end is told, and its link is waited for."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from sokovan.entrypoints.agent import AgentOptions
from sokovan.entrypoints.embedded import background_tasks
from sokovan.entrypoints.embedded.background_tasks import start_agent, start_task


def options(root: Path) -> AgentOptions:
    # Nobody listens at port 1.
    return AgentOptions("ws://127.0.0.1:1", "an-agent-key", root=root, name="here")


async def test_an_early_end_is_told_with_its_reason_and_does_no_more_harm() -> None:
    told: list[str] = []

    async def fail() -> None:
        raise ZeroDivisionError("inside")

    async with AsyncExitStack() as stack:
        # The callback of `start_task` is there before that of whoever waits.
        await asyncio.wait([start_task(stack, fail(), name="the fleet", log=told.append)])
        assert told == ["the fleet has ended: ZeroDivisionError('inside')"]


async def test_who_works_to_the_end_is_let_go_without_a_word() -> None:
    told: list[str] = []
    async with AsyncExitStack() as stack:
        task = start_task(stack, asyncio.Event().wait(), name="the fleet", log=told.append)  # type: ignore[arg-type]  # what it gives does not matter
    assert task.cancelled()
    assert told == []


async def test_an_agent_that_has_a_link_is_said_without_more(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        words = await start_agent(options(tmp_path), stack, connected=lambda _id: True, log=lambda _line: None)
    assert words.startswith("here: ")
    assert "NOT LINKED" not in words


async def test_an_agent_without_a_link_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_tasks, "LINK_TIMEOUT_S", 1.0)
    told: list[str] = []
    async with AsyncExitStack() as stack:
        words = await start_agent(options(tmp_path), stack, connected=lambda _id: False, log=told.append)
    assert "NOT LINKED: ws://127.0.0.1:1: " in words
    assert any("127.0.0.1:1" in line for line in told)
