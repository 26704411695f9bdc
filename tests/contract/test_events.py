"""Contract of the event bus, in one process, on Valkey, and with notifications of PostgreSQL."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from sokovan.adapters.inprocess.events import InProcessEventBus
from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.valkey.events import ValkeyEventBus
from sokovan.ports.events import EventBus
from sokovan.testing.clock import VirtualClock
from sokovan.testing.contracts import Subject
from sokovan.testing.contracts.events import BACKLOG_MAX, CHECKS, REDELIVER_AFTER_S, BusSubject
from tests.contract.notified_processes import NotifiedProcesses


@pytest.fixture(params=["inprocess", "valkey", "postgres"])
async def subject(request: pytest.FixtureRequest) -> AsyncIterator[BusSubject]:
    if request.param == "inprocess":
        clock = VirtualClock()
        bus = InProcessEventBus(clock, backlog_max=BACKLOG_MAX, redeliver_after_s=REDELIVER_AFTER_S)

        async def make_same() -> EventBus:
            return bus

        yield Subject(make_same, clock.advance)
        return
    if request.param == "postgres":
        async with NotifiedProcesses(request.getfixturevalue("postgres_url")) as processes:
            one = await processes.events(backlog_max=BACKLOG_MAX, redeliver_after_s=REDELIVER_AFTER_S)

            async def make_one() -> EventBus:  # a group of consumers is in one process
                return one

            yield Subject(make_one, SystemClock().sleep)
        return
    url = request.getfixturevalue("valkey_url")
    async with AsyncExitStack() as closing:

        async def make_client() -> EventBus:
            bus = ValkeyEventBus(url, backlog_max=BACKLOG_MAX, redeliver_after_s=REDELIVER_AFTER_S)
            closing.push_async_callback(bus.close)
            return bus

        yield Subject(make_client, SystemClock().sleep)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_contract(check: Callable[[BusSubject], Awaitable[None]], subject: BusSubject) -> None:
    await check(subject)
