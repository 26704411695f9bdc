"""Contract of hints, in one process, and between processes on PostgreSQL and on Valkey."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from sokovan.adapters.inprocess.hints import InProcessHints
from sokovan.adapters.local.clock import SystemClock
from sokovan.ports.hints import Hints
from sokovan.testing.clock import VirtualClock
from sokovan.testing.contracts import Subject
from sokovan.testing.contracts.hints import CHECKS, HintsSubject
from tests.contract.notified_processes import on_postgres, on_valkey


@pytest.fixture(params=["inprocess", "valkey", "postgres"])
async def subject(request: pytest.FixtureRequest) -> AsyncIterator[HintsSubject]:
    if request.param == "inprocess":
        clock = VirtualClock()
        hints = InProcessHints(clock)

        async def make_same() -> Hints:
            return hints

        yield Subject(make_same, clock.advance)
        return
    made = on_postgres if request.param == "postgres" else on_valkey
    async with made(request.getfixturevalue(f"{request.param}_url")) as processes:
        yield Subject(processes.hints, SystemClock().sleep)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_contract(check: Callable[[HintsSubject], Awaitable[None]], subject: HintsSubject) -> None:
    await check(subject)
