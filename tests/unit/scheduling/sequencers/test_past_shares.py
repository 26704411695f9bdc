"""PastShares: the less a user or queue has used of its share, the larger the factor."""

from __future__ import annotations

from sokovan.domain.cluster.queue import Queue
from sokovan.domain.ids import QueueName
from sokovan.domain.owners.past_usage import UsageScope
from sokovan.scheduling.engine.workspace import ONE
from sokovan.scheduling.sequencers.past_shares import PastShares
from sokovan.scheduling.snapshot import UsageRecord
from tests.unit.scheduling.little_cluster import agent, session, snapshot


def used(name: str, amount: int, scope: UsageScope = UsageScope.USER) -> UsageRecord:
    return UsageRecord(name, 0, amount, scope=scope)


def test_without_usage_the_factor_is_one() -> None:
    assert PastShares(snapshot([agent("a")]), {}, {"ann"}).factor("ann", "q") == ONE


def test_a_user_who_used_exactly_its_share_has_half_of_its_own_factor() -> None:
    seen = snapshot([agent("a")], history=(used("ann", 100), used("bob", 100)))
    assert PastShares(seen, {}, {"ann", "bob"}).factor("ann", "root") == ONE // 2


def test_the_usage_of_a_queue_and_of_those_above_it_counts() -> None:
    history = (used("busy", 1000, UsageScope.QUEUE),)
    queues = (Queue(name=QueueName("busy")), Queue(name=QueueName("calm")))
    seen = snapshot(
        [agent("a")], [session("one", queue="busy"), session("two", queue="calm")], queues=queues, history=history
    )
    shares = PastShares(seen, {str(queue.name): queue for queue in queues}, {"default"})
    assert shares.factor("default", "busy") < shares.factor("default", "calm")
    below = Queue(name=QueueName("below"), parent=QueueName("busy"))
    deep = PastShares(seen, {str(queue.name): queue for queue in (*queues, below)}, {"default"})
    assert deep.factor("default", "below") < shares.factor("default", "calm")
