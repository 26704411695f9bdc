"""Contract of the event bus, in one process, and between processes on PostgreSQL and on Valkey."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from sokovan.adapters.inprocess.events import InProcessEventBus
from sokovan.adapters.local.clock import SystemClock
from sokovan.ports.events import EventBus
from sokovan.testing.clock import VirtualClock
from sokovan.testing.contracts import Subject
from sokovan.testing.contracts.events import BACKLOG_MAX, CHECKS, REDELIVER_AFTER_S, BusSubject
from tests.contract.notified_processes import on_postgres, on_valkey


@pytest.fixture(params=["inprocess", "valkey", "postgres"])
async def subject(request: pytest.FixtureRequest) -> AsyncIterator[BusSubject]:
    if request.param == "inprocess":
        clock = VirtualClock()
        bus = InProcessEventBus(clock, backlog_max=BACKLOG_MAX, redeliver_after_s=REDELIVER_AFTER_S)

        async def make_same() -> EventBus:
            return bus

        yield Subject(make_same, clock.advance)
        return
    made = on_postgres if request.param == "postgres" else on_valkey
    async with made(request.getfixturevalue(f"{request.param}_url")) as processes:
        one = await processes.events(backlog_max=BACKLOG_MAX, redeliver_after_s=REDELIVER_AFTER_S)

        async def make_one() -> EventBus:  # a group of consumers is in one process
            return one

        yield Subject(make_one, SystemClock().sleep)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_contract(check: Callable[[BusSubject], Awaitable[None]], subject: BusSubject) -> None:
    await check(subject)
