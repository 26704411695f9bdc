"""Chooses the endpoint of a request: pure, and deterministic under a seed.

Among the ACTIVE endpoints of the revision that the weights give, the least loaded one is
taken; an endpoint that has seen the prompt's begin, or the caller's session, is preferred
only while its load is near the least. All amounts are integers.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from math import gcd
from typing import NamedTuple
from zlib import crc32

from sokovan.proxy.routing.endpoint_state import EndpointState
from sokovan.wire.serving.route_table import RoutePolicy

# Of more endpoints than these, a sample is compared.
SAMPLE_MAX = 8
# Affinity counts while the load is at most the least load, plus 2 or a quarter.
NEAR_REQUESTS, NEAR_PART = 2, 4
_SCALE = 1 << 20
_MASK = (1 << 64) - 1


class Draws:
    """A sequence of numbers from a seed (SplitMix64)."""

    __slots__ = ("_state",)

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def below(self, bound: int) -> int:
        """The next number, at least 0 and less than `bound`."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        return _mixed(self._state) % bound


def _mixed(value: int) -> int:
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


@dataclass(slots=True)
class RevisionPool:
    """The endpoints of one revision that may get requests, by id, and its weight.

    `cursor` is the id of the last one that round robin took; `holders` is the endpoint
    that got each block of a prompt last.
    """

    revision: int
    weight: int
    endpoints: list[EndpointState]
    cursor: str = ""
    holders: dict[int, EndpointState] = field(default_factory=dict)


class Affinity(NamedTuple):
    """The parts of a request that bind it: its key, its session, its prompt's chain."""

    key_id: str = ""
    session: bytes = b""
    chain: tuple[int, ...] = ()


def choose(
    pools: Sequence[RevisionPool],
    policy: RoutePolicy,
    affinity: Affinity,
    *,
    now_ms: int,
    draws: Draws,
    tried: Collection[EndpointState] = (),
) -> EndpointState | None:
    """The endpoint for a request; None if none is free. `tried` ones are not taken."""
    if len(pools) == 1:
        [pool] = pools
        return _in_pool(pool, policy, affinity, now_ms=now_ms, draws=draws, tried=tried) if pool.weight else None
    first = _drawn_pool(pools, affinity.key_id, draws)
    for pool in pools if first is None else (first, *(pool for pool in pools if pool is not first)):
        if pool.weight:
            found = _in_pool(pool, policy, affinity, now_ms=now_ms, draws=draws, tried=tried)
            if found is not None:
                return found
    return None


def _drawn_pool(pools: Sequence[RevisionPool], key_id: str, draws: Draws) -> RevisionPool | None:
    """The pool by weight. A key stays on its side while the weights stay."""
    total = sum(pool.weight for pool in pools)
    if not total:
        return None
    number = crc32(key_id.encode()) % total if key_id else draws.below(total)
    for pool in pools:
        number -= pool.weight
        if number < 0:
            return pool
    return None


def _in_pool(
    pool: RevisionPool,
    policy: RoutePolicy,
    affinity: Affinity,
    *,
    now_ms: int,
    draws: Draws,
    tried: Collection[EndpointState],
) -> EndpointState | None:
    if policy == "round-robin":
        return _next_in_turn(pool, now_ms, tried)
    if policy == "sticky" and affinity.session:
        return _by_session(pool, affinity.session, now_ms, tried)
    chain = affinity.chain if policy == "prefix" else ()
    candidates = _sample(pool, chain, now_ms=now_ms, draws=draws, tried=tried)
    return _best(candidates, chain, now_ms) if candidates else None


def _sample(
    pool: RevisionPool, chain: tuple[int, ...], *, now_ms: int, draws: Draws, tried: Collection[EndpointState]
) -> list[EndpointState]:
    """All free endpoints of a small pool, else eight at random and the last holder of the prompt."""
    endpoints = pool.endpoints
    count = len(endpoints)
    if count <= SAMPLE_MAX:
        return [one for one in endpoints if one.free(now_ms) and one not in tried]
    sample: list[EndpointState] = []
    holder = next((pool.holders[block] for block in reversed(chain) if block in pool.holders), None)
    if holder is not None and holder.free(now_ms) and holder not in tried:
        sample.append(holder)
    at, step = draws.below(count), 1 + draws.below(count - 1)
    # Steps that share no divisor with the count visit every endpoint once.
    while gcd(step, count) != 1:
        step += 1
    for _ in range(count):
        one = endpoints[at]
        if one is not holder and one.free(now_ms) and one not in tried:
            sample.append(one)
            if len(sample) >= SAMPLE_MAX:
                break
        at = (at + step) % count
    return sample


def _best(candidates: list[EndpointState], chain: tuple[int, ...], now_ms: int) -> EndpointState:
    """The highest score: matched part of the prompt less load over mean load."""
    loads = [one.load(now_ms) for one in candidates]
    total, count = sum(loads), len(candidates)
    near = _near(min(loads))
    best, best_score = candidates[0], -(1 << 62)
    for one, load in zip(candidates, loads, strict=True):
        score = -load * _SCALE * count // (total * one.entry.weight) if total else 0
        if chain and load <= near:
            score += one.prefixes.matched(chain) * _SCALE // len(chain)
        if score > best_score or (score == best_score and _is_before(one, best)):
            best, best_score = one, score
    return best


def _is_before(one: EndpointState, other: EndpointState) -> bool:
    """The order of equal scores: fewest served, then the smallest id."""
    if one.served != other.served:
        return one.served < other.served
    return one.entry.endpoint_id < other.entry.endpoint_id


def _near(least: int) -> int:
    return least + max(NEAR_REQUESTS, least // NEAR_PART)


def _by_session(
    pool: RevisionPool, session: bytes, now_ms: int, tried: Collection[EndpointState]
) -> EndpointState | None:
    """The endpoint of a session by rendezvous hashing, among those near the least load."""
    free = [one for one in pool.endpoints if one.free(now_ms) and one not in tried]
    if not free:
        return None
    near = _near(min(one.load(now_ms) for one in free))
    value = crc32(session) * 0x9E3779B97F4A7C15
    return max((one for one in free if one.load(now_ms) <= near), key=lambda one: _mixed((value ^ one.hash) & _MASK))


def _next_in_turn(pool: RevisionPool, now_ms: int, tried: Collection[EndpointState]) -> EndpointState | None:
    after = [one for one in pool.endpoints if one.entry.endpoint_id > pool.cursor]
    for one in (*after, *pool.endpoints):
        if one.free(now_ms) and one not in tried:
            pool.cursor = one.entry.endpoint_id
            return one
    return None


def sent(pool: RevisionPool, endpoint: EndpointState, chain: tuple[int, ...]) -> None:
    """Count a request before it is sent, and remember its prompt there."""
    endpoint.outstanding += 1
    endpoint.served += 1
    if chain:
        endpoint.prefixes.remember(chain)
        if len(pool.endpoints) > SAMPLE_MAX:
            _remember_holder(pool, endpoint, chain)


def _remember_holder(pool: RevisionPool, endpoint: EndpointState, chain: tuple[int, ...]) -> None:
    holders = pool.holders
    for block in reversed(chain):
        holders.pop(block, None)
        holders[block] = endpoint
    while len(holders) > HOLDERS_MAX:
        del holders[next(iter(holders))]


HOLDERS_MAX = 16_384
