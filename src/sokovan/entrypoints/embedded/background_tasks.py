"""What is to work as long as the manager does: if it ends before, that is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, ExitStack
from typing import Any

from sokovan.adapters.local.clock import SystemClock
from sokovan.domain.ids import AgentId
from sokovan.entrypoints.agent import AgentOptions, agent_of

# So long does a start wait for the agent of its own machine.
LINK_S = 5.0
LOOK_S = 0.02


def tend(
    stack: AsyncExitStack, work: Coroutine[Any, Any, None], *, name: str, tell: Callable[[str], None]
) -> asyncio.Task[None]:
    """Do `work` until the stack is left; an earlier end is told with its reason."""

    def ended(task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            tell(f"{name} has ended: {task.exception()!r}")

    task = asyncio.create_task(work, name=name)
    task.add_done_callback(ended)
    stack.push_async_callback(_let_go, task)
    return task


async def tend_agent(
    options: AgentOptions, stack: AsyncExitStack, *, connected: Callable[[AgentId], bool], tell: Callable[[str], None]
) -> str:
    """Run the agent of this machine beside the manager; what there is to say about it.

    Waits a while for its link. Raises JournalInUse, RuntimeFailure, InvalidName.
    """
    heard: list[str] = []

    def note(line: str) -> None:
        heard[:] = [line]
        tell(line)

    parts = await agent_of(options, stack.enter_context(ExitStack()), tell=note)
    running = tend(stack, parts.run(), name="the agent of this machine", tell=note)
    clock, agent_id = SystemClock(), parts.inventory.agent_id
    deadline_ms = clock.monotonic_ms() + LINK_S * 1000
    while not connected(agent_id) and not running.done() and clock.monotonic_ms() < deadline_ms:
        await clock.sleep(LOOK_S)
    if connected(agent_id):
        return parts.in_words()
    return f"{parts.in_words()}; NOT LINKED: {heard[-1] if heard else f'no answer within {LINK_S:g} s'}"


async def _let_go(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
