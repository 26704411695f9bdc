"""Proxies of ports in another thread keep the contracts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from typing import Self

import pytest

from sokovan.adapters.inprocess.agents import InProcessAgentStates
from sokovan.adapters.inprocess.events import InProcessEventBus
from sokovan.adapters.inprocess.hints import InProcessHints
from sokovan.adapters.local.clock import SystemClock
from sokovan.domain.errors import ObjectNotFound
from sokovan.domain.events import AgentEnrolled
from sokovan.domain.ids import AgentId, KernelId
from sokovan.entrypoints.embedded.loop_proxy import (
    AgentStatesProxy,
    EventsProxy,
    ExecutionProxy,
    HintsProxy,
    LoopNudge,
    LoopProxy,
    ManagerGone,
)
from sokovan.ports.agent_states import AgentState, KernelReport


@contextmanager
def another_loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def test_work_is_done_in_the_other_thread_and_its_answer_comes_back() -> None:
    with another_loop() as loop:

        async def where() -> int:
            return threading.get_ident()

        assert await LoopProxy(loop).call(where) != threading.get_ident()


async def test_an_error_over_there_is_an_error_here() -> None:
    with another_loop() as loop:

        async def fail() -> None:
            raise ObjectNotFound(what="session", name="s1")

        with pytest.raises(ObjectNotFound):
            await LoopProxy(loop).call(fail)


async def test_who_gives_up_here_ends_the_work_there() -> None:
    with another_loop() as loop:
        begun, ended = threading.Event(), threading.Event()

        async def wait() -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        task = asyncio.create_task(LoopProxy(loop).call(wait))
        await asyncio.to_thread(begun.wait, 60)
        task.cancel()
        assert await asyncio.to_thread(ended.wait, 60)


async def test_a_hint_that_is_set_here_wakes_who_waits_there() -> None:
    with another_loop() as loop:
        hints = InProcessHints(SystemClock())
        across = HintsProxy(LoopProxy(loop), hints)
        waiting = asyncio.run_coroutine_threadsafe(hints.wait(["sessions"], timeout_s=30), loop)
        await across.set("sessions")
        assert await asyncio.wrap_future(waiting)
        assert await across.wait(["sessions"], timeout_s=0)
        assert await across.take("sessions")
        assert not await across.take("sessions")
        await across.close()


class CountedHints(InProcessHints):
    """Hints that count how often they were given."""

    times = 0

    async def set(self, name: str) -> None:
        self.times += 1
        await super().set(name)


async def test_a_hint_is_said_once_until_it_has_arrived_and_then_again() -> None:
    with another_loop() as loop:
        hints, held, busy = CountedHints(SystemClock()), threading.Event(), threading.Event()
        across = HintsProxy(LoopProxy(loop), hints)

        def be_busy() -> None:
            busy.set()
            held.wait(180)

        loop.call_soon_threadsafe(be_busy)
        await asyncio.to_thread(busy.wait, 60)
        for _ in range(100):  # `set` does not wait for a busy loop
            await across.set("sessions")
        held.set()
        assert await across.wait(["sessions"], timeout_s=60)
        assert await across.take("sessions")
        assert hints.times == 1
        await across.set("sessions")
        assert await across.wait(["sessions"], timeout_s=60)


async def test_a_hint_for_a_manager_that_has_ended_is_refused_each_time() -> None:
    with another_loop() as loop:
        across = HintsProxy(LoopProxy(loop), InProcessHints(SystemClock()))
    for _ in range(2):
        with pytest.raises(ManagerGone):
            await across.set("sessions")


async def test_events_published_there_are_received_here() -> None:
    with another_loop() as loop:
        bus = InProcessEventBus(SystemClock())
        across = EventsProxy(LoopProxy(loop), bus)
        subscription = await across.subscribe(group="api", consumer="one")
        event = AgentEnrolled(at_ms=1, agent_id=AgentId("a1"), incarnation=1)
        asyncio.run_coroutine_threadsafe(bus.publish([event]), loop)
        delivery = await subscription.receive(limit=10, wait_s=30)
        assert delivery.events == (event,)
        await subscription.acknowledge(delivery)
        await across.publish([event])
        assert (await subscription.receive(limit=10, wait_s=30)).events == (event,)
        await subscription.close()
        await across.close()


async def test_states_of_agents_are_one_cache_from_both_sides() -> None:
    with another_loop() as loop:
        cache = InProcessAgentStates(SystemClock())
        across = AgentStatesProxy(LoopProxy(loop), cache)
        state = AgentState(AgentId("a1"), 1, 1, (KernelReport(KernelId("k1"), 1, running=True),))
        assert await across.put(state, ttl_s=60)
        assert await across.get(AgentId("a1")) == state
        assert await across.fresh() == {AgentId("a1"): state}
        await across.drop(AgentId("a1"))
        assert await across.get(AgentId("a1")) is None
        await across.close()


class Echo:
    """An execution that echoes its input."""

    def __init__(self, command: Sequence[str]) -> None:
        self.command = command
        self.said: asyncio.Queue[bytes] = asyncio.Queue()
        self.size = (0, 0)
        self.open = False

    async def __aenter__(self) -> Self:
        self.open = True
        return self

    async def __aexit__(self, *details: object) -> None:
        self.open = False

    async def write(self, data: bytes) -> None:
        await self.said.put(data)

    async def resize(self, *, rows: int, columns: int) -> None:
        self.size = (rows, columns)

    async def output(self) -> AsyncIterator[bytes]:
        while piece := await self.said.get():
            yield piece

    async def wait(self) -> int:
        return 7


async def test_an_execution_is_talked_to_from_here() -> None:
    with another_loop() as loop:
        echo = Echo(["cat"])
        async with ExecutionProxy(LoopProxy(loop), lambda: echo) as across:
            assert echo.open
            await across.write(b"hello")
            await across.resize(rows=24, columns=80)
            await across.write(b"")
            assert [piece async for piece in across.output()] == [b"hello"]
            assert await across.wait() == 7
            assert echo.size == (24, 80)
        assert not echo.open


async def test_a_loop_that_has_ended_is_an_error_with_a_reason_and_nothing_is_left_behind() -> None:
    with another_loop() as loop:
        states = AgentStatesProxy(LoopProxy(loop), InProcessAgentStates(SystemClock()))
        assert await states.fresh() == {}
    with pytest.raises(ManagerGone, match="the manager has ended"):
        await states.fresh()


async def test_nudges_that_come_before_the_other_loop_turns_are_one() -> None:
    called: list[int] = []
    nudge = LoopNudge(asyncio.get_running_loop(), lambda: called.append(1))
    for _ in range(10):
        nudge()
    await SystemClock().sleep(0)
    assert called == [1]
    nudge()
    await SystemClock().sleep(0)
    assert called == [1, 1]
