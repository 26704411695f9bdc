"""The sequencer multifactor: a sum of age, past usage, size and queue priority."""

from __future__ import annotations

from typing import Any

from sokovan.domain.cluster.queue import Queue
from sokovan.domain.owners.past_usage import UsageScope
from sokovan.scheduling.snapshot import FairSharePolicy, SessionWorkload, UsageRecord
from tests.unit.scheduling.little_cluster import agent, decide, session, snapshot, started


def order(*sessions: SessionWorkload, queues: tuple[Queue, ...] = (), **more: Any) -> list[str]:
    """The sessions in the order in which they start, where all fit in one queue policy."""
    seen = snapshot([agent("a", "cpu=64")], sessions, queues=queues, **more)
    return started(decide(seen, sequencer="multifactor"))


def used(name: str, amount: int, scope: UsageScope = UsageScope.USER) -> UsageRecord:
    return UsageRecord(name, 0, amount, scope=scope)


def test_without_history_the_oldest_goes_first() -> None:
    assert order(session("one"), session("two"), session("three")) == ["one", "two", "three"]


def test_users_with_less_usage_for_their_share_go_first() -> None:
    history = (used("ann", 900), used("bob", 100))
    sessions = (session("hers", user="ann"), session("his", user="bob"))
    assert order(*sessions, history=history) == ["his", "hers"]
    weighted = FairSharePolicy(weights={"ann": 99})
    assert order(*sessions, history=history, fair_share=weighted) == ["hers", "his"]


def test_a_small_difference_in_usage_does_not_outweigh_age() -> None:
    history = (used("ann", 101), used("bob", 100))
    assert order(session("hers", user="ann"), session("his", user="bob"), history=history) == ["hers", "his"]


def test_larger_sessions_go_first_among_nearly_equals() -> None:
    big = session("big", *["cpu=16"] * 3)
    assert order(session("a"), session("b"), session("c"), big, session("d")).index("big") < 4
