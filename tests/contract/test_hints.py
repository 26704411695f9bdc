"""Contract of hints, in one process, on Valkey, and between processes on PostgreSQL."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from sokovan.adapters.inprocess.hints import InProcessHints
from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.valkey.hints import ValkeyHints
from sokovan.ports.hints import Hints
from sokovan.testing.clock import VirtualClock
from sokovan.testing.contracts import Subject
from sokovan.testing.contracts.hints import CHECKS, HintsSubject
from tests.contract.notified_processes import NotifiedProcesses


@pytest.fixture(params=["inprocess", "valkey", "postgres"])
async def subject(request: pytest.FixtureRequest) -> AsyncIterator[HintsSubject]:
    if request.param == "inprocess":
        clock = VirtualClock()
        hints = InProcessHints(clock)

        async def make_same() -> Hints:
            return hints

        yield Subject(make_same, clock.advance)
        return
    if request.param == "postgres":
        async with NotifiedProcesses(request.getfixturevalue("postgres_url")) as processes:
            yield Subject(processes.hints, SystemClock().sleep)
        return
    url = request.getfixturevalue("valkey_url")
    async with AsyncExitStack() as closing:

        async def make_client() -> Hints:
            hints = ValkeyHints(url)
            closing.push_async_callback(hints.close)
            return hints

        yield Subject(make_client, SystemClock().sleep)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_contract(check: Callable[[HintsSubject], Awaitable[None]], subject: HintsSubject) -> None:
    await check(subject)
