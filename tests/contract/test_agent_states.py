"""Contract of the agent state cache, in one process and on Valkey."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from sokovan.adapters.inprocess.agents import InProcessAgentStates
from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.valkey.agents import ValkeyAgentStates
from sokovan.ports.agent_states import AgentStateCache
from sokovan.testing.clock import VirtualClock
from sokovan.testing.contracts import Subject
from sokovan.testing.contracts.agent_states import CHECKS, CacheSubject


@pytest.fixture(params=["inprocess", "valkey"])
async def subject(request: pytest.FixtureRequest) -> AsyncIterator[CacheSubject]:
    if request.param == "inprocess":
        clock = VirtualClock()
        cache = InProcessAgentStates(clock)

        async def make_same() -> AgentStateCache:
            return cache

        yield Subject(make_same, clock.advance)
        return
    url = request.getfixturevalue("valkey_url")
    async with AsyncExitStack() as closing:

        async def make_client() -> AgentStateCache:
            cache = ValkeyAgentStates(url)
            closing.push_async_callback(cache.close)
            return cache

        yield Subject(make_client, SystemClock().sleep)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_contract(check: Callable[[CacheSubject], Awaitable[None]], subject: CacheSubject) -> None:
    await check(subject)
