"""The verdict cache writes only changes."""

from collections.abc import Sequence

import pytest

from sokovan.domain.events import Event, VerdictsChanged
from sokovan.domain.ids import ScalingGroupName, SessionId
from sokovan.orchestrator.batch_writer import BatchWriter
from sokovan.orchestrator.sessions.verdict_cache import VerdictCache, held_sessions
from sokovan.ports.repositories.verdicts import StoredVerdict
from sokovan.scheduling.codec import verdict_from_json
from sokovan.scheduling.trace import Check, Code, Verdict
from sokovan.testing.orchestrated_cluster import OrchestratedCluster

GROUP = ScalingGroupName("default")


class Harness:
    """A verdict cache over a store, and what it has stored and published."""

    def __init__(self, cluster: OrchestratedCluster) -> None:
        self.cluster, self.batches = cluster, BatchWriter(cluster.store)
        self.cache = VerdictCache(self.batches, cluster.clock)

    async def write(self, *verdicts: Verdict) -> int:
        """Write verdicts; the number of transactions it took."""
        before = self.batches.transactions
        await self.cache.write(GROUP, verdicts)
        return self.batches.transactions - before

    async def stored(self, name: str) -> StoredVerdict | None:
        return await self.cluster.store.read(lambda unit: unit.verdicts.get(SessionId(name)))

    async def published(self) -> list[tuple[str, tuple[str, ...]]]:
        """Codes and sessions of the events since the last call."""
        events: list[Event] = []

        async def publish(some: Sequence[Event]) -> None:
            events.extend(some)

        while await self.cluster.store.outbox.publish_pending(publish, limit=100):
            pass
        return [(event.code, event.session_ids) for event in events if isinstance(event, VerdictsChanged)]


def verdict(name: str, code: Code = Code.NOT_ENOUGH_FREE, summary: str = "no room", position: int = 1) -> Verdict:
    return Verdict(SessionId(name), code, summary, position=position)


@pytest.mark.slow
async def test_a_verdict_is_stored_whole_with_a_line_in_the_history(cluster: OrchestratedCluster) -> None:
    await cluster.submit("s")
    harness = Harness(cluster)
    assert await harness.write(verdict("s")) == 1
    stored = await harness.stored("s")
    assert stored is not None
    assert (stored.code, stored.summary) == ("NOT_ENOUGH_FREE", "no room")
    assert verdict_from_json(stored.document) == verdict("s")
    assert await cluster.codes("s") == ["NOT_ENOUGH_FREE"]


@pytest.mark.slow
async def test_the_same_again_is_written_twice_a_minute(cluster: OrchestratedCluster) -> None:
    await cluster.submit("s")
    harness = Harness(cluster)
    await harness.write(verdict("s"))
    for _ in range(29):
        await cluster.clock.advance(1)
        assert await harness.write(verdict("s")) == 0
    await cluster.clock.advance(1)
    assert await harness.write(verdict("s")) == 1
    assert await cluster.codes("s") == ["NOT_ENOUGH_FREE"]


async def test_a_new_place_near_the_front_is_written_after_a_second(cluster: OrchestratedCluster) -> None:
    await cluster.submit("s")
    harness = Harness(cluster)
    await harness.write(verdict("s", position=7))
    assert await harness.write(verdict("s", position=6)) == 0
    await cluster.clock.advance(1)
    assert await harness.write(verdict("s", position=6)) == 1
    stored = await harness.stored("s")
    assert stored is not None
    assert verdict_from_json(stored.document).position == 6
    # The first one ahead is another, though as many are ahead.
    await cluster.clock.advance(1)
    assert await harness.write(verdict("s", position=6)._replace(ahead=(SessionId("r"),))) == 1
    assert await cluster.codes("s") == ["NOT_ENOUGH_FREE"]


@pytest.mark.slow
async def test_a_new_place_far_from_the_front_waits_for_the_next_minute(cluster: OrchestratedCluster) -> None:
    await cluster.submit("s")
    harness = Harness(cluster)
    await harness.write(verdict("s", position=500))
    await cluster.clock.advance(1)
    assert await harness.write(verdict("s", position=400)) == 0
    await cluster.clock.advance(29)
    assert await harness.write(verdict("s", position=300)) == 1


@pytest.mark.slow
async def test_a_new_summary_is_written_after_a_second_and_a_new_code_at_once(cluster: OrchestratedCluster) -> None:
    await cluster.submit("s")
    harness = Harness(cluster)
    await harness.write(verdict("s"))
    assert await harness.write(verdict("s", summary="nearly room")) == 0
    await cluster.clock.advance(1)
    assert await harness.write(verdict("s", summary="nearly room")) == 1
    assert await harness.write(verdict("s", Code.QUOTA_USER)) == 1
    assert await cluster.codes("s") == ["NOT_ENOUGH_FREE", "QUOTA_USER"]


@pytest.mark.slow
async def test_a_placed_or_ended_session_has_no_verdict(cluster: OrchestratedCluster) -> None:
    for name in ("placed", "left", "waits"):
        await cluster.submit(name)
    harness = Harness(cluster)
    await harness.write(*[verdict(name) for name in ("placed", "left", "waits")])
    await harness.write(verdict("placed", Code.PLACED), verdict("waits"))
    assert [await harness.stored(name) is None for name in ("placed", "left", "waits")] == [True, True, False]
    await harness.cache.remove_all()
    assert await harness.stored("waits") is None


@pytest.mark.slow
async def test_verdicts_of_an_earlier_leader_are_removed_as_well(cluster: OrchestratedCluster) -> None:
    await cluster.submit("s")
    await Harness(cluster).write(verdict("s"))
    later = Harness(cluster)
    await later.write(verdict("s", Code.PLACED))
    assert await later.stored("s") is None


async def test_who_never_waited_costs_no_transaction(cluster: OrchestratedCluster) -> None:
    await cluster.submit("s")
    harness = Harness(cluster)
    await harness.write()
    assert await harness.write(verdict("s", Code.PLACED)) == 0
    harness.cache.clear()
    assert await harness.write(verdict("s", Code.PLACED)) == 1


@pytest.mark.slow
async def test_a_new_code_is_published_at_once_and_a_new_summary_is_not(cluster: OrchestratedCluster) -> None:
    await cluster.submit("s")
    harness = Harness(cluster)
    await harness.write(verdict("s"))
    assert await harness.published() == [("NOT_ENOUGH_FREE", ("s",))]
    await cluster.clock.advance(1)
    assert await harness.write(verdict("s", summary="nearly room")) == 1
    await cluster.clock.advance(30)
    assert await harness.write(verdict("s", summary="nearly room")) == 1
    assert await harness.published() == []
    await harness.write(verdict("s", Code.NEVER_FITS))
    assert await harness.published() == [("NEVER_FITS", ("s",))]


@pytest.mark.slow
async def test_many_who_hear_the_same_go_out_in_few_events(cluster: OrchestratedCluster) -> None:
    names = [f"s{number:03}" for number in range(150)]
    for name in names:
        await cluster.submit(name)
    harness = Harness(cluster)
    transactions = await harness.write(*[verdict(name) for name in names])
    events = await harness.published()
    assert len(events) == transactions == 2
    assert sorted(name for _, ids in events for name in ids) == names


async def test_a_session_that_is_no_longer_held_is_eligible_from_then_on(cluster: OrchestratedCluster) -> None:
    await cluster.submit("s")
    harness = Harness(cluster)
    held = verdict("s")._replace(checks=(Check("reserved-batch-session", "no", "starts in 9 s"),))
    await harness.write(held)
    stored = await harness.stored("s")
    assert stored is not None
    assert (stored.held, stored.eligible_ms, harness.cache.is_eligible(GROUP, SessionId("s"))) == (True, None, False)
    # The code is the same, and yet it is written at once.
    assert await harness.write(verdict("s")) == 1
    stored = await harness.stored("s")
    assert stored is not None
    assert (stored.eligible_ms, harness.cache.is_eligible(GROUP, SessionId("s"))) == (stored.last_ms, True)
    harness.cache.clear()
    assert not harness.cache.is_eligible(GROUP, SessionId("s"))


def test_rules_and_limits_of_queues_hold_sessions_and_shortage_does_not() -> None:
    held = [
        verdict("quota")._replace(checks=(Check("user-resource-limit", "no", "too much"),)),
        verdict("queue", Code.QUEUE_LIMIT),
        verdict("closed", Code.QUEUE_CLOSED),
    ]
    free = [
        verdict("room")._replace(checks=(Check("user-resource-limit", "ok"), Check("room", "short"))),
        verdict("share", Code.QUEUE_OVER_SHARE),
    ]
    assert held_sessions([*held, *free]) == {"quota", "queue", "closed"}


async def test_what_one_cycle_leaves_is_written_without_another_decision(
    cluster: OrchestratedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sokovan.orchestrator.sessions.verdict_cache._WRITES_MAX", 2)
    names = ["a", "b", "c", "d", "e"]
    for name in names:
        await cluster.submit(name)
    harness, written = Harness(cluster), []
    await harness.write(*map(verdict, names))
    for _ in range(4):
        written.append([name for name in names if await harness.stored(name) is not None])
        await harness.cache.write_rest()
    assert written == [["a", "b"], ["a", "b", "c", "d"], names, names]
    assert await cluster.codes("e") == ["NOT_ENOUGH_FREE"]
    assert harness.batches.transactions == 3


async def test_a_change_that_comes_too_soon_to_be_written_follows(cluster: OrchestratedCluster) -> None:
    await cluster.submit("s")
    harness = Harness(cluster)
    await harness.write(verdict("s"))
    await harness.write(verdict("s", summary="nearly room"))
    await harness.cache.write_rest()
    assert harness.batches.transactions == 1
    await cluster.clock.advance(1)
    await harness.cache.write_rest()
    stored = await harness.stored("s")
    assert stored is not None
    assert stored.summary == "nearly room"
    await cluster.clock.advance(60)
    await harness.cache.write_rest()  # unchanged since
    assert harness.batches.transactions == 2
