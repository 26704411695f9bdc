"""Agent states of one process, beyond the contract: exact times."""

from sokovan.adapters.inprocess.agents import InProcessAgentStates
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
