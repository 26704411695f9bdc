"""Fair share over time: the least decayed usage per weight goes first."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.scheduling.sequencers.fair_share import decay, decayed_usage
from sokovan.scheduling.snapshot import FairSharePolicy, SystemSnapshot, UsageRecord
from tests.unit.scheduling.little_cluster import agent, decide, session, snapshot, started

HOUR = 3600
ONE = 1 << 32


def after(*records: UsageRecord, weights: dict[str, int] | None = None, half_life_s: int = HOUR) -> SystemSnapshot:
    """A system at ten hours whose users alice, bob and carol each have one session waiting, in this order."""
    waiting = [session(f"{user}s", user=user) for user in ("alice", "bob", "carol")]
    policy = FairSharePolicy(half_life_s, weights or {})
    return snapshot([agent("a")], waiting, now_ms=10 * HOUR * 1000, history=records, fair_share=policy)


def used(user: str, amount: int, *, hours_ago: int = 0) -> UsageRecord:
    """Usage of a user some hours ago."""
    return UsageRecord(user, (10 - hours_ago) * HOUR * 1000, amount)


def order(seen: SystemSnapshot) -> list[str]:
    """The users in the order in which their sessions start."""
    return [name.removesuffix("s") for name in started(decide(seen, sequencer="fair-share"))]


def test_without_any_history_the_oldest_goes_first() -> None:
    assert order(after()) == ["alice", "bob", "carol"]


def test_the_least_usage_goes_first_and_users_without_history_before_all() -> None:
    assert order(after(used("alice", 300), used("bob", 100))) == ["carol", "bob", "alice"]


def test_old_usage_counts_less_than_new_usage() -> None:
    assert order(after(used("alice", 300, hours_ago=3), used("bob", 100), used("carol", 50))) == [
        "alice", "carol", "bob",
    ]  # fmt: skip


def test_usage_is_summed_over_records() -> None:
    assert order(after(used("alice", 60), used("alice", 60), used("bob", 100), used("carol", 130)))[0] == "bob"


def test_a_user_of_twice_the_weight_may_have_used_twice_as_much() -> None:
    records = used("alice", 150), used("bob", 100), used("carol", 100)
    assert order(after(*records)) == ["bob", "carol", "alice"]
    assert order(after(*records, weights={"alice": 2})) == ["alice", "bob", "carol"]


def test_priority_comes_above_fair_share() -> None:
    sessions = [session("poor", user="alice"), session("urgent", user="bob", priority=1)]
    seen = snapshot([agent("a")], sessions, history=(UsageRecord("bob", 0, 1000),))
    assert started(decide(seen, sequencer="fair-share")) == ["urgent", "poor"]


def test_a_record_of_the_future_counts_in_full() -> None:
    assert decayed_usage(after(used("alice", 7, hours_ago=-5))) == {"alice": 7 * ONE}


def test_faded_usage_is_exact_after_whole_half_lives() -> None:
    seen = after(used("alice", 8, hours_ago=1), used("bob", 8, hours_ago=3), used("bob", 1), weights={"bob": 2})
    assert decayed_usage(seen) == {"alice": 4 * ONE, "bob": ONE}


@pytest.mark.parametrize("halvings", range(33))
def test_a_whole_half_life_halves_exactly(halvings: int) -> None:
    assert decay(halvings * HOUR, HOUR) == ONE >> halvings


def test_after_very_many_half_lives_nothing_is_left() -> None:
    assert decay(33 * HOUR, HOUR) == 0


def test_half_of_a_half_life_is_the_square_root_of_a_half() -> None:
    assert abs(decay(HOUR // 2, HOUR) ** 2 - (ONE * ONE >> 1)) < 1 << 34


def test_decay_never_grows_over_the_seconds_of_a_few_half_lives() -> None:
    faded = [decay(age, 997) for age in range(3 * 997)]
    assert all(later <= earlier for earlier, later in pairwise(faded))


@given(st.integers(0, 10**9), st.integers(0, 10**6), st.integers(1, 10**8))
def test_usage_never_counts_more_as_it_grows_older(age: int, later: int, half_life: int) -> None:
    assert 0 <= decay(age + later, half_life) <= decay(age, half_life) <= ONE
