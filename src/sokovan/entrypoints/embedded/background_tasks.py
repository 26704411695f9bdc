"""Background tasks that live as long as the manager; an early end is logged."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, ExitStack
from typing import Any

from sokovan.adapters.local.clock import SystemClock
from sokovan.domain.ids import AgentId
from sokovan.entrypoints.agent import AgentOptions, build_agent

# How long a start waits for the local agent to connect.
LINK_TIMEOUT_S = 5.0
POLL_S = 0.02


def start_task(
    stack: AsyncExitStack, work: Coroutine[Any, Any, None], *, name: str, log: Callable[[str], None]
) -> asyncio.Task[None]:
    """Run `work` until the stack is closed; an earlier end is logged with its reason."""

    def ended(task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            log(f"{name} has ended: {task.exception()!r}")

    task = asyncio.create_task(work, name=name)
    task.add_done_callback(ended)
    stack.push_async_callback(_cancel, task)
    return task


async def start_agent(
    options: AgentOptions, stack: AsyncExitStack, *, connected: Callable[[AgentId], bool], log: Callable[[str], None]
) -> str:
    """Run the local agent beside the manager; returns a summary of it.

    Waits up to LINK_TIMEOUT_S for its link. Raises JournalInUse, RuntimeFailure,
    InvalidName.
    """
    logged: list[str] = []

    def note(line: str) -> None:
        logged[:] = [line]
        log(line)

    agent = await build_agent(options, stack.enter_context(ExitStack()), log=note)
    running = start_task(stack, agent.run(), name="the local agent", log=note)
    clock, agent_id = SystemClock(), agent.inventory.agent_id
    deadline_ms = clock.monotonic_ms() + LINK_TIMEOUT_S * 1000
    while not connected(agent_id) and not running.done() and clock.monotonic_ms() < deadline_ms:
        await clock.sleep(POLL_S)
    if connected(agent_id):
        return agent.summary()
    return f"{agent.summary()}; NOT LINKED: {logged[-1] if logged else f'no answer within {LINK_TIMEOUT_S:g} s'}"


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
