"""Background tasks that live as long as the server.

None ends silently: one is started again with growing pauses, or its end ends the server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, ExitStack
from typing import Any

from sokovan.adapters.local.clock import SystemClock
from sokovan.domain.errors import SokovanError
from sokovan.domain.ids import AgentId
from sokovan.entrypoints.agent import AgentOptions, build_agent
from sokovan.ports.environment import Clock

# How long a start waits for the local agent to connect, if something is in its way, and if it has said nothing: then
# the machine is only slow.
LINK_TIMEOUT_S, LINK_SILENCE_S = 5.0, 30.0
POLL_S = 0.02
# Pauses before a task is started again; one that ran for longer than LASTED_S is started at once, and begins anew.
PAUSE_FIRST_S, PAUSE_MAX_S = 1.0, 60.0
LASTED_S = 10.0


class ComponentEnded(SokovanError):
    """A part of the server ended by itself."""

    code = "component-ended"
    hint = "start the server again, running kernels continue; the log has the details"


Fatal = Callable[[ComponentEnded], None]


def start_task(
    stack: AsyncExitStack, work: Coroutine[Any, Any, None], *, name: str, log: Callable[[str], None], fatal: Fatal
) -> asyncio.Task[None]:
    """Run `work` until the stack is closed; an earlier end is logged and fatal."""

    def ended(task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            error = ComponentEnded(f"{name} has ended: {task.exception()!r}")
            log(error.message)
            fatal(error)

    task = asyncio.create_task(work, name=name)
    task.add_done_callback(ended)
    stack.push_async_callback(_cancel, task)
    return task


def keep_running(
    stack: AsyncExitStack,
    work: Callable[[], Coroutine[Any, Any, None]],
    *,
    name: str,
    log: Callable[[str], None],
    clock: Clock,
) -> None:
    """Run `work` until the stack is closed, and again after an earlier end."""
    stack.push_async_callback(_cancel, asyncio.create_task(_repeat(work, name, log, clock), name=name))


async def _repeat(
    work: Callable[[], Coroutine[Any, Any, None]], name: str, log: Callable[[str], None], clock: Clock
) -> None:
    pause_s = PAUSE_FIRST_S
    while True:
        begun_ms, error = clock.monotonic_ms(), None
        try:
            await work()
        except Exception as raised:  # noqa: BLE001  # whatever it is, the next run must come
            error = raised
        if clock.monotonic_ms() - begun_ms > LASTED_S * 1000:
            log(f"{name} has ended: {error!r}; it starts again")
            pause_s = PAUSE_FIRST_S
            continue
        log(f"{name} has ended: {error!r}; it starts again in {pause_s:g} s")
        await clock.sleep(pause_s)
        pause_s = min(pause_s * 2, PAUSE_MAX_S)


async def start_agent(
    options: AgentOptions,
    stack: AsyncExitStack,
    *,
    connected: Callable[[AgentId], bool],
    log: Callable[[str], None],
    fatal: Fatal,
) -> str:
    """Run the local agent beside the manager; returns a summary of it.

    Waits for its link, as long as LINK_TIMEOUT_S and LINK_SILENCE_S say. Raises
    JournalInUse, RuntimeFailure, InvalidName.
    """
    logged: list[str] = []

    def note(line: str) -> None:
        logged[:] = [line]
        log(line)

    agent = await build_agent(options, stack.enter_context(ExitStack()), log=note)
    running = start_task(stack, agent.run(), name="the local agent", log=note, fatal=fatal)
    clock, agent_id = SystemClock(), agent.inventory.agent_id
    begun_ms = clock.monotonic_ms()
    while not connected(agent_id) and not running.done():
        if clock.monotonic_ms() - begun_ms >= (LINK_TIMEOUT_S if logged else LINK_SILENCE_S) * 1000:
            break
        await clock.sleep(POLL_S)
    if connected(agent_id):
        return agent.summary()
    return f"{agent.summary()}; NOT LINKED: {logged[-1] if logged else f'no answer within {LINK_SILENCE_S:g} s'}"


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
