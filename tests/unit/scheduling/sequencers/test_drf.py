"""Dominant resource fairness: the user with the smallest dominant share goes first."""

from __future__ import annotations

from sokovan.domain.owners.policy import Scope
from sokovan.domain.slot_notation import parse_slots
from sokovan.scheduling.engine.usage.owner_ledger import OwnerLedger
from sokovan.scheduling.sequencers.base import SequencingContext
from sokovan.scheduling.sequencers.drf import DRFSequencer
from sokovan.scheduling.snapshot import OwnerUsage, SessionWorkload
from tests.unit.scheduling.little_cluster import agent, decide, kernel, session, snapshot, started


def share(used: str, capacity: str) -> int:
    """The share of a user with this usage, in a cluster of this capacity."""
    seen = snapshot([], [session("old", kernel("k", used, on="a"), user="alice")])
    context = SequencingContext(seen, parse_slots(capacity), OwnerLedger(seen))
    return DRFSequencer().share(session("s", user="alice"), context)


def of_two_users(*, count: int, ask: str = "cpu=1") -> list[SessionWorkload]:
    """All sessions of alice, then all of bob."""
    return [session(f"{user}{index}", ask, user=user) for user in ("alice", "bob") for index in range(count)]


def test_two_users_without_usage_alternate() -> None:
    seen = snapshot([agent("a", "cpu=4")], of_two_users(count=3))
    assert started(decide(seen, sequencer="drf")) == ["alice0", "bob0", "alice1", "bob1"]


def test_under_fifo_the_first_user_would_go_all_the_way() -> None:
    seen = snapshot([agent("a", "cpu=4")], of_two_users(count=3))
    assert started(decide(seen, sequencer="fifo")) == ["alice0", "alice1", "alice2", "bob0"]


def test_usage_at_the_start_of_the_cycle_counts() -> None:
    old = session("old", kernel("k", "cpu=2", on="a"), user="alice")
    seen = snapshot([agent("a", "cpu=8", used="cpu=2")], [old, *of_two_users(count=3)])
    assert started(decide(seen, sequencer="drf"))[:4] == ["bob0", "bob1", "alice0", "bob2"]


def test_the_dominant_slot_decides_not_the_number_of_sessions() -> None:
    memory = [session(f"m{index}", "cpu=1 mem=4Gi", user="alice") for index in range(2)]
    compute = [session(f"c{index}", "cpu=3 mem=1Gi", user="bob") for index in range(2)]
    # Each of alice's takes 4/16 of the memory, each of bob's 3/9 of the cpus.
    plan = decide(snapshot([agent("a", "cpu=9 mem=16Gi")], [*compute, *memory]), sequencer="drf")
    assert started(plan) == ["c0", "m0", "m1", "c1"]


def test_the_oldest_session_of_a_user_goes_first_and_priority_comes_before_shares() -> None:
    sessions = [*of_two_users(count=2), session("urgent", user="alice", priority=5)]
    assert started(decide(snapshot([agent("a", "cpu=8")], sessions), sequencer="drf")) == [
        "urgent", "bob0", "alice0", "bob1", "alice1",
    ]  # fmt: skip


def test_a_user_whose_session_does_not_fit_loses_only_that_attempt() -> None:
    sessions = [session("wide", "cpu=9", user="alice"), session("narrow", user="alice"), session("bobs", user="bob")]
    assert started(decide(snapshot([agent("a")], sessions), sequencer="drf")) == ["narrow", "bobs"]


def test_a_share_is_the_largest_part_of_any_slot() -> None:
    assert share("", "cpu=4 mem=8Gi") == 0
    assert share("cpu=1 mem=4Gi", "cpu=4 mem=8Gi") == share("cpu=2", "cpu=4 mem=8Gi")
    assert share("cpu=1", "cpu=4") < share("cpu=1", "cpu=3")


def test_usage_in_another_scaling_group_does_not_count() -> None:
    usage = {Scope.USER: {"alice": OwnerUsage(parse_slots("cpu=2 cuda.device=1"))}}
    seen = snapshot([agent("a", "cpu=4")], of_two_users(count=3), usage=usage)
    assert started(decide(seen, sequencer="drf")) == ["alice0", "bob0", "alice1", "bob1"]


def test_a_slot_that_the_scaling_group_lacks_does_not_count() -> None:
    assert share("cuda.device=1", "cpu=4") == 0
    assert share("cpu=1 cuda.device=1", "cpu=4") == share("cpu=1", "cpu=4")


def test_the_fairness_key_is_the_user_whatever_the_keypair() -> None:
    assert DRFSequencer().fairness_key(session("s", user="alice")) == "alice"
