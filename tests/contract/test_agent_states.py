"""Contract of the agent state cache."""

from collections.abc import Awaitable, Callable

import pytest

from sokovan.adapters.inprocess.agents import InProcessAgentStates
from sokovan.ports.agent_states import AgentStateCache
from sokovan.testing.clock import VirtualClock
from sokovan.testing.contracts import Subject
from sokovan.testing.contracts.agent_states import CHECKS, CacheSubject


@pytest.fixture
def subject() -> CacheSubject:
    clock = VirtualClock()
    cache = InProcessAgentStates(clock)

    async def make_same() -> AgentStateCache:
        return cache

    return Subject(make_same, clock.advance)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_contract(check: Callable[[CacheSubject], Awaitable[None]], subject: CacheSubject) -> None:
    await check(subject)
