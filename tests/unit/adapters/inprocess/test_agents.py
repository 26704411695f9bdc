"""Agent states of one process, beyond the contract: exact times."""

from dataclasses import replace

from sokovan.adapters.inprocess.agents import InProcessAgentStates
from sokovan.domain.ids import AgentId
from sokovan.testing.clock import VirtualClock
from sokovan.testing.contracts.agent_states import AGENT, heartbeat


async def test_a_state_is_fresh_until_its_time_and_not_at_it() -> None:
    clock = VirtualClock()
    cache = InProcessAgentStates(clock)
    await cache.put(heartbeat(), ttl_s=10)
    await clock.advance(9.999)
    assert await cache.get(AGENT) is not None
    await clock.advance(0.001)
    assert await cache.get(AGENT) is None
    assert not await cache.fresh()


async def test_a_jump_of_the_clock_makes_no_agent_stale() -> None:
    clock = VirtualClock()
    cache = InProcessAgentStates(clock)
    await cache.put(heartbeat(), ttl_s=10)
    clock.jump(3600)
    assert await cache.get(AGENT) is not None


async def test_what_was_said_in_a_stale_state_does_not_refuse_a_new_one() -> None:
    clock = VirtualClock()
    cache = InProcessAgentStates(clock)
    await cache.put(heartbeat(sequence=10), ttl_s=1)
    await clock.advance(2)
    assert await cache.put(heartbeat(sequence=9), ttl_s=1)


async def test_one_of_many_that_falls_silent_is_no_longer_listed() -> None:
    clock = VirtualClock()
    cache = InProcessAgentStates(clock)
    others = [replace(heartbeat(), agent_id=AgentId(f"other{number}")) for number in range(3)]
    await cache.put(heartbeat(), ttl_s=10)
    for passed in range(4):
        for one in others:
            await cache.put(replace(one, sequence=passed + 1), ttl_s=10)
        assert (AGENT in await cache.fresh()) is (passed < 2)
        assert {one.agent_id for one in others} <= (await cache.fresh()).keys()
        await clock.advance(5)
    await clock.advance(5)
    assert not await cache.fresh()
