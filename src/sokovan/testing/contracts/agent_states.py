"""Contract of `ports.agent_states.AgentStateCache`."""

from __future__ import annotations

from typing import TypeAlias

from sokovan.domain.ids import AgentId, KernelId
from sokovan.ports.agent_states import AgentState, AgentStateCache, KernelReport
from sokovan.testing.clock import until
from sokovan.testing.contracts import Subject, expect

CacheSubject: TypeAlias = Subject[AgentStateCache]
LONG_S = 60.0
SHORT_S = 0.3
AGENT = AgentId("a1")


def heartbeat(agent_id: str = AGENT, *, incarnation: int = 1, sequence: int = 1) -> AgentState:
    """A state with every field filled."""
    reports = (
        KernelReport(KernelId("k1"), attempt=1, running=True),
        KernelReport(KernelId("k2"), attempt=3, running=False, exit_code=137, reason="out-of-memory"),
    )
    return AgentState(AgentId(agent_id), incarnation, sequence, reports, {"cpu_percent": 12, "memory_bytes": 2**40})


async def a_state_is_read_as_it_was_put(subject: CacheSubject) -> None:
    """All fields are stored, for other clients too."""
    cache, other = await subject.make(), await subject.make()
    expect(await cache.put(heartbeat(), ttl_s=LONG_S), "the first state was not kept")
    expect(await cache.get(AGENT) == heartbeat(), "a state is read back changed")
    expect(await other.get(AGENT) == heartbeat(), "another client does not see the state")


async def an_agent_without_a_heartbeat_is_unknown(subject: CacheSubject) -> None:
    """None, and not listed."""
    cache = await subject.make()
    expect(await cache.get(AGENT) is None, "an unknown agent has a state")
    expect(not await cache.fresh(), "an empty cache lists agents")


async def a_later_sequence_replaces_an_earlier_one(subject: CacheSubject) -> None:
    """The latest heartbeat is the state."""
    cache = await subject.make()
    for sequence in (1, 2, 10, 100):
        expect(await cache.put(heartbeat(sequence=sequence), ttl_s=LONG_S), f"sequence {sequence} was refused")
    expect(await cache.get(AGENT) == heartbeat(sequence=100), "the latest heartbeat is not the state")


async def an_earlier_sequence_is_refused(subject: CacheSubject) -> None:
    """A heartbeat that arrives out of order changes nothing."""
    cache = await subject.make()
    await cache.put(heartbeat(sequence=10), ttl_s=LONG_S)
    expect(not await cache.put(heartbeat(sequence=9), ttl_s=LONG_S), "an earlier heartbeat was stored")
    expect(await cache.get(AGENT) == heartbeat(sequence=10), "an earlier heartbeat replaced a later one")


async def a_new_incarnation_replaces_any_sequence_of_the_old_one(subject: CacheSubject) -> None:
    """A restarted agent begins a new sequence."""
    cache = await subject.make()
    await cache.put(heartbeat(incarnation=9, sequence=5000), ttl_s=LONG_S)
    expect(await cache.put(heartbeat(incarnation=10, sequence=1), ttl_s=LONG_S), "a new incarnation was refused")
    expect(not await cache.put(heartbeat(incarnation=9, sequence=5001), ttl_s=LONG_S), "a dead incarnation was kept")
    expect(await cache.get(AGENT) == heartbeat(incarnation=10, sequence=1), "a dead incarnation is the state")


async def the_same_heartbeat_twice_is_kept(subject: CacheSubject) -> None:
    """A repeated heartbeat is neither later nor earlier."""
    cache = await subject.make()
    await cache.put(heartbeat(), ttl_s=LONG_S)
    expect(await cache.put(heartbeat(), ttl_s=LONG_S), "a repeated heartbeat was refused")


async def a_state_becomes_stale_after_its_ttl(subject: CacheSubject) -> None:
    """Then the agent is unknown and no longer listed."""
    cache = await subject.make()
    await cache.put(heartbeat(), ttl_s=SHORT_S)
    await cache.put(heartbeat("a2"), ttl_s=LONG_S)

    async def is_stale() -> bool:
        return await cache.get(AGENT) is None

    await until(is_stale, elapse=subject.elapse)
    expect(set(await cache.fresh()) == {"a2"}, "a stale agent is listed as fresh, or a fresh one is not")


async def a_heartbeat_keeps_the_agent_fresh(subject: CacheSubject) -> None:
    """The time to live counts from the last heartbeat."""
    cache = await subject.make()
    await cache.put(heartbeat(sequence=1), ttl_s=SHORT_S)
    await cache.put(heartbeat(sequence=2), ttl_s=LONG_S)
    await subject.elapse(2 * SHORT_S)
    expect(await cache.get(AGENT) == heartbeat(sequence=2), "the ttl of an earlier heartbeat made the agent stale")


async def every_fresh_agent_is_listed(subject: CacheSubject) -> None:
    """However many there are."""
    cache = await subject.make()
    states = {AgentId(f"a{number}"): heartbeat(f"a{number}") for number in range(1500)}
    for state in states.values():
        await cache.put(state, ttl_s=LONG_S)
    expect(dict(await cache.fresh()) == states, "the list of fresh agents is not what was put")


async def a_dropped_agent_is_unknown(subject: CacheSubject) -> None:
    """At once; dropping it again is no error."""
    cache = await subject.make()
    await cache.put(heartbeat(sequence=7), ttl_s=LONG_S)
    await cache.drop(AGENT)
    await cache.drop(AGENT)
    expect(await cache.get(AGENT) is None, "a dropped agent has a state")
    expect(not await cache.fresh(), "a dropped agent is listed")
    expect(await cache.put(heartbeat(sequence=1), ttl_s=LONG_S), "a dropped agent cannot come back")


async def names_that_resemble_patterns_are_not_expanded(subject: CacheSubject) -> None:
    """A name is plain text, with any characters."""
    cache = await subject.make()
    for name in ("rack/a:1", "rack/a:10", "a@b+c"):
        await cache.put(heartbeat(name), ttl_s=LONG_S)
    await cache.drop(AgentId("rack/a:1"))
    expect(set(await cache.fresh()) == {"rack/a:10", "a@b+c"}, "agents were taken for each other")


CHECKS = (
    a_state_is_read_as_it_was_put,
    an_agent_without_a_heartbeat_is_unknown,
    a_later_sequence_replaces_an_earlier_one,
    an_earlier_sequence_is_refused,
    a_new_incarnation_replaces_any_sequence_of_the_old_one,
    the_same_heartbeat_twice_is_kept,
    a_state_becomes_stale_after_its_ttl,
    a_heartbeat_keeps_the_agent_fresh,
    every_fresh_agent_is_listed,
    a_dropped_agent_is_unknown,
    names_that_resemble_patterns_are_not_expanded,
)
