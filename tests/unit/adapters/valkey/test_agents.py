"""Agent states on Valkey, beyond the contract: what the keys hold."""

from valkey.asyncio import Valkey

from sokovan.adapters.valkey.agents import MOMENT_WIDTH, ValkeyAgentStates, decoded, encoded, moment
from sokovan.testing.contracts.agent_states import AGENT, heartbeat


def test_a_state_is_read_as_it_was_written() -> None:
    assert decoded(moment(heartbeat()).encode() + encoded(heartbeat())) == heartbeat()


def test_what_is_no_state_is_read_as_none() -> None:
    for value in (None, b"", b"x" * MOMENT_WIDTH, b"0" * MOMENT_WIDTH + b"{}", b"0" * MOMENT_WIDTH + b"\xff"):
        assert decoded(value) is None


def test_moments_sort_as_numbers_do() -> None:
    pairs = [(1, 9), (1, 10), (2, 1), (10, 0), (10**15, 3), (10**15, 2**60)]
    moments = [moment(heartbeat(incarnation=incarnation, sequence=sequence)) for incarnation, sequence in pairs]
    assert sorted(moments) == moments


async def test_an_unreadable_key_does_not_hide_others(valkey_url: str) -> None:
    cache = ValkeyAgentStates(valkey_url)
    await cache.put(heartbeat(), ttl_s=60)
    async with Valkey.from_url(valkey_url) as client:
        await client.set("sokovan:agent:broken", "no state")
    assert list(await cache.fresh()) == [AGENT]
    await cache.close()


async def test_a_prefix_with_the_signs_of_patterns_is_taken_as_a_text(valkey_url: str) -> None:
    one, other = ValkeyAgentStates(valkey_url, prefix="s*[x]"), ValkeyAgentStates(valkey_url, prefix="sok[x]")
    await one.put(heartbeat("a1"), ttl_s=60)
    await other.put(heartbeat("a2"), ttl_s=60)
    assert list(await one.fresh()) == ["a1"]
    assert list(await other.fresh()) == ["a2"]
    await one.close()
    await other.close()


async def test_every_key_expires(valkey_url: str) -> None:
    cache = ValkeyAgentStates(valkey_url)
    await cache.put(heartbeat(), ttl_s=0.0001)
    await cache.put(heartbeat("a2"), ttl_s=60)
    async with Valkey.from_url(valkey_url) as client:
        assert 0 < await client.pttl("sokovan:agent:a2") <= 60_000
        assert await client.pttl("sokovan:agent:a1") in {-2, 0, 1}
    await cache.close()
