"""Fair share over time: the least decayed usage per weight goes first."""

from __future__ import annotations

from dataclasses import replace

from sokovan.domain.owners.past_usage import ONE, UsageScope
from sokovan.domain.owners.tenancy import Owner
from sokovan.scheduling.sequencers.fair_share import usage_by_weight
from sokovan.scheduling.snapshot import FairSharePolicy, SystemSnapshot, UsageRecord
from tests.unit.scheduling.little_cluster import agent, decide, session, snapshot, started

HOUR = 3600
ALICE = (UsageScope.USER, "alice")


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
    assert usage_by_weight(after(used("alice", 7, hours_ago=-5))) == {ALICE: 7 * ONE}


def test_faded_usage_is_exact_after_whole_half_lives() -> None:
    seen = after(used("alice", 8, hours_ago=1), used("bob", 8, hours_ago=3), used("bob", 1), weights={"bob": 2})
    assert usage_by_weight(seen) == {ALICE: 4 * ONE, (UsageScope.USER, "bob"): ONE}


def test_the_group_comes_before_the_user() -> None:
    sessions = [
        session("idle-of-busy", owner=Owner("alice", "busy")),
        session("busy-of-idle", owner=Owner("bob", "idle")),
    ]
    records = (
        UsageRecord("busy", 0, 10, UsageScope.GROUP),
        UsageRecord("idle", 0, 5, UsageScope.GROUP),
        UsageRecord("bob", 0, 1000),
    )
    seen = snapshot([agent("a")], sessions, history=records)
    assert started(decide(seen, sequencer="fair-share")) == ["busy-of-idle", "idle-of-busy"]
    weighted = replace(seen, fair_share=FairSharePolicy(group_weights={"busy": 3}))
    assert started(decide(weighted, sequencer="fair-share")) == ["idle-of-busy", "busy-of-idle"]


def test_slots_held_now_count_for_the_time_since_the_record() -> None:
    holding = UsageRecord("alice", 9 * HOUR * 1000, 0, slot="cuda.device", held=1)
    assert order(after(holding, used("bob", 1))) == ["carol", "bob", "alice"]


def test_slots_count_by_their_weight() -> None:
    records = UsageRecord("alice", 0, 10, slot="cpu"), UsageRecord("bob", 0, 10, slot="cuda.device")
    seen = snapshot([agent("a")], [session("bobs", user="bob"), session("alices", user="alice")], history=records)
    assert started(decide(seen, sequencer="fair-share")) == ["alices", "bobs"]
    equal = replace(seen, fair_share=FairSharePolicy(slot_weights={"cpu": 41}))
    assert started(decide(equal, sequencer="fair-share")) == ["bobs", "alices"]


def test_the_usage_of_a_queue_does_not_change_the_order_in_it() -> None:
    assert order(after(UsageRecord("default", 0, 99, UsageScope.QUEUE))) == ["alice", "bob", "carol"]
