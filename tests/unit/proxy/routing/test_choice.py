"""The endpoint of a request: least load, bounded affinity, the same under a seed."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from sokovan.domain.serving.health import Health, HealthCounter
from sokovan.proxy.routing.choice import Affinity, Draws, RevisionPool, choose, sent
from sokovan.proxy.routing.endpoint_state import EndpointState
from sokovan.proxy.routing.engine_counts import EngineCounts
from sokovan.proxy.routing.prefixes import prefix_chain
from tests.unit.proxy.routing.states import endpoint, pool

ANY = Affinity()
PROMPT = prefix_chain(b"a" * 512 + b"b" * 512 + b"c" * 512)


def chosen(
    *pools: RevisionPool,
    policy: str = "least-load",
    affinity: Affinity = ANY,
    seed: int = 1,
    tried: tuple[EndpointState, ...] = (),
) -> str | None:
    found = choose(pools, policy, affinity, now_ms=1_000, draws=Draws(seed), tried=tried)  # type: ignore[arg-type]  # names of policies as text
    return found.entry.endpoint_id if found else None


def test_the_least_loaded_endpoint_is_taken() -> None:
    assert chosen(pool(endpoint(1, outstanding=3), endpoint(2, outstanding=1), endpoint(3, outstanding=2))) == "k002.1"


def test_ties_are_broken_by_fewest_served_then_by_id() -> None:
    first, second, third = endpoint(1), endpoint(2), endpoint(3)
    first.served = 5

    assert chosen(pool(third, second, first)) == "k002.1"


def test_only_active_free_endpoints_are_taken() -> None:
    ejected, unhealthy = endpoint(1), endpoint(2)
    ejected.ejection.broken(900, "refused")
    unhealthy.health = HealthCounter(verdict=Health.UNHEALTHY)
    busy, warming = endpoint(3, outstanding=2, limit=2), endpoint(4, state="WARMING")

    assert chosen(pool(ejected, unhealthy, busy, warming)) is None
    assert chosen(pool(ejected, unhealthy, busy, warming, endpoint(5, outstanding=60))) == "k005.1"


def test_an_endpoint_that_was_tried_is_not_tried_again() -> None:
    first, second = endpoint(1), endpoint(2, outstanding=9)

    assert chosen(pool(first, second), tried=(first,)) == "k002.1"


def test_a_recent_count_of_the_engine_is_believed_and_an_old_one_ignored() -> None:
    first, second = endpoint(1), endpoint(2, outstanding=1)
    first.engine.sampled(500, EngineCounts(4, 3), own=0)
    assert chosen(pool(first, second)) == "k002.1"

    first.engine.sampled(-1_500, EngineCounts(4, 3), own=0)
    assert chosen(pool(first, second)) == "k001.1", "an old count never counts as full"


def test_the_endpoint_that_has_seen_the_prompt_is_preferred() -> None:
    first, second = endpoint(1, outstanding=4), endpoint(2, outstanding=3)
    first.prefixes.remember(PROMPT)
    assert chosen(pool(first, second), policy="least-load", affinity=Affinity(chain=PROMPT)) == "k002.1"

    assert chosen(pool(first, second), policy="prefix", affinity=Affinity(chain=PROMPT)) == "k001.1"


def test_affinity_ends_when_the_endpoint_is_loaded_more_than_others() -> None:
    first, second = endpoint(1, outstanding=3), endpoint(2)
    first.prefixes.remember(PROMPT)

    assert chosen(pool(first, second), policy="prefix", affinity=Affinity(chain=PROMPT)) == "k002.1"


def test_a_prompt_returns_to_its_endpoint_among_a_hundred() -> None:
    endpoints = [endpoint(number) for number in range(100)]
    group = pool(*endpoints)
    sent(group, endpoints[57], PROMPT)
    endpoints[57].outstanding = 0

    found = {chosen(group, policy="prefix", affinity=Affinity(chain=PROMPT), seed=seed) for seed in range(50)}

    assert found == {"k057.1"}


def test_a_sticky_session_stays_and_moves_only_if_its_endpoint_goes() -> None:
    endpoints = [endpoint(number) for number in range(12)]
    group = pool(*endpoints)
    homes = {number: chosen(group, policy="sticky", affinity=Affinity(session=b"s%d" % number)) for number in range(40)}

    assert len(set(homes.values())) > 5, "sessions are spread"
    gone = homes[0]
    rest = pool(*(one for one in endpoints if one.entry.endpoint_id != gone))
    for number, home in homes.items():
        now = chosen(rest, policy="sticky", affinity=Affinity(session=b"s%d" % number))
        assert home in (now, gone)


def test_a_sticky_session_leaves_an_endpoint_that_is_overloaded() -> None:
    endpoints = [endpoint(number) for number in range(3)]
    group = pool(*endpoints)
    home = chosen(group, policy="sticky", affinity=Affinity(session=b"s"))
    next(one for one in endpoints if one.entry.endpoint_id == home).outstanding = 9

    assert chosen(group, policy="sticky", affinity=Affinity(session=b"s")) != home


def test_round_robin_takes_each_in_turn_and_skips_busy_ones() -> None:
    group = pool(endpoint(1), endpoint(2, outstanding=64), endpoint(3))

    assert [chosen(group, policy="round-robin") for _ in range(4)] == ["k001.1", "k003.1", "k001.1", "k003.1"]


def test_revisions_get_requests_by_weight() -> None:
    old, new = pool(endpoint(1), weight=950), pool(endpoint(2, revision=2), revision=2, weight=50)
    found = Counter(chosen(old, new, seed=seed) for seed in range(4_000))

    assert 120 < found["k002.1"] < 280


def test_a_key_stays_on_its_side_of_a_canary() -> None:
    old, new = pool(endpoint(1), weight=500), pool(endpoint(2, revision=2), revision=2, weight=500)
    sides = {
        key: {chosen(old, new, affinity=Affinity(key), seed=seed) for seed in range(20)} for key in ("a", "b", "c")
    }

    assert all(len(side) == 1 for side in sides.values())


def test_a_revision_of_weight_zero_gets_nothing() -> None:
    blue, green = pool(endpoint(1), weight=1000), pool(endpoint(2, revision=2), revision=2, weight=0)
    assert {chosen(blue, green, seed=seed) for seed in range(50)} == {"k001.1"}

    blue.endpoints[0].ejection.broken(900, "refused")
    assert chosen(blue, green) is None


def test_requests_of_a_revision_without_a_free_endpoint_go_to_the_others() -> None:
    old, new = pool(endpoint(1), weight=1), pool(endpoint(2, revision=2, state="WARMING"), revision=2, weight=999)

    assert {chosen(old, new, seed=seed) for seed in range(50)} == {"k001.1"}


@given(st.lists(st.integers(0, 70), min_size=1, max_size=30), st.integers(0, 1 << 64))
def test_the_choice_depends_on_nothing_but_its_input(loads: list[int], seed: int) -> None:
    def once() -> str | None:
        return chosen(pool(*(endpoint(number, outstanding=load) for number, load in enumerate(loads))), seed=seed)

    found = once()
    assert found == once()
    assert (found is None) == all(load >= 64 for load in loads)


@given(st.lists(st.integers(0, 63), min_size=9, max_size=40), st.integers(0, 1000))
def test_a_sample_never_takes_the_most_loaded_of_many(loads: list[int], seed: int) -> None:
    found = chosen(pool(*(endpoint(number, outstanding=load) for number, load in enumerate(loads))), seed=seed)
    assert found is not None
    load = loads[int(found[1:4])]

    assert sum(other >= load for other in loads) >= 8, "it is the least of eight"


def test_requests_that_are_counted_before_they_are_sent_spread_over_all() -> None:
    endpoints = [endpoint(number) for number in range(8)]
    group, draws = pool(*endpoints), Draws(3)
    for _ in range(80):
        found = choose((group,), "least-load", ANY, now_ms=0, draws=draws)
        assert found is not None
        sent(group, found, ())

    assert {one.outstanding for one in endpoints} == {10}
