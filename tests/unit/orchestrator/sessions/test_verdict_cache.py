"""Only what changed is written about those who wait."""

from collections.abc import Sequence

from sokovan.domain.events import Event, VerdictsChanged
from sokovan.domain.ids import ScalingGroupName, SessionId
from sokovan.orchestrator.batch_writer import BatchWriter
from sokovan.orchestrator.sessions.verdict_cache import VerdictCache
from sokovan.ports.repositories.verdicts import StoredVerdict
from sokovan.scheduling.codec import verdict_from_json
from sokovan.scheduling.trace import Code, Verdict
from sokovan.testing.orchestrated_cluster import OrchestratedCluster

GROUP = ScalingGroupName("default")


class Book:
    """A book over a store, and what is stored of one session."""

    def __init__(self, cluster: OrchestratedCluster) -> None:
        self.cluster, self.batches = cluster, BatchWriter(cluster.store)
        self.book = VerdictCache(self.batches, cluster.clock)

    async def tell(self, *verdicts: Verdict) -> int:
        """Tell, and how many transactions it took."""
        before = self.batches.transactions
        await self.book.tell(GROUP, verdicts)
        return self.batches.transactions - before

    async def stored(self, name: str) -> StoredVerdict | None:
        return await self.cluster.store.read(lambda unit: unit.verdicts.get(SessionId(name)))

    async def told(self) -> list[tuple[str, tuple[str, ...]]]:
        """Codes and sessions of what went out since the last look."""
        events: list[Event] = []

        async def publish(some: Sequence[Event]) -> None:
            events.extend(some)

        while await self.cluster.store.outbox.publish_pending(publish, limit=100):
            pass
        return [(event.code, event.session_ids) for event in events if isinstance(event, VerdictsChanged)]


def verdict(name: str, code: Code = Code.NOT_ENOUGH_FREE, summary: str = "no room", position: int = 1) -> Verdict:
    return Verdict(SessionId(name), code, summary, position=position)


async def test_a_verdict_is_stored_whole_with_a_line_in_the_history(cluster: OrchestratedCluster) -> None:
    await cluster.submit("s")
    book = Book(cluster)
    assert await book.tell(verdict("s")) == 1
    stored = await book.stored("s")
    assert stored is not None
    assert (stored.code, stored.summary) == ("NOT_ENOUGH_FREE", "no room")
    assert verdict_from_json(stored.document) == verdict("s")
    assert await cluster.codes("s") == ["NOT_ENOUGH_FREE"]


async def test_the_same_again_is_written_twice_a_minute(cluster: OrchestratedCluster) -> None:
    await cluster.submit("s")
    book = Book(cluster)
    await book.tell(verdict("s"))
    for _ in range(29):
        await cluster.clock.advance(1)
        assert await book.tell(verdict("s", position=7)) == 0
    await cluster.clock.advance(1)
    assert await book.tell(verdict("s", position=7)) == 1
    assert await cluster.codes("s") == ["NOT_ENOUGH_FREE"]


async def test_new_words_are_written_after_a_second_and_a_new_code_at_once(cluster: OrchestratedCluster) -> None:
    await cluster.submit("s")
    book = Book(cluster)
    await book.tell(verdict("s"))
    assert await book.tell(verdict("s", summary="nearly room")) == 0
    await cluster.clock.advance(1)
    assert await book.tell(verdict("s", summary="nearly room")) == 1
    assert await book.tell(verdict("s", Code.QUOTA_USER)) == 1
    assert await cluster.codes("s") == ["NOT_ENOUGH_FREE", "QUOTA_USER"]


async def test_whoever_was_placed_or_left_has_no_verdict(cluster: OrchestratedCluster) -> None:
    for name in ("placed", "left", "waits"):
        await cluster.submit(name)
    book = Book(cluster)
    await book.tell(*[verdict(name) for name in ("placed", "left", "waits")])
    await book.tell(verdict("placed", Code.PLACED), verdict("waits"))
    assert [await book.stored(name) is None for name in ("placed", "left", "waits")] == [True, True, False]
    await book.book.nobody_waits()
    assert await book.stored("waits") is None


async def test_what_an_earlier_leader_told_is_removed_as_well(cluster: OrchestratedCluster) -> None:
    await cluster.submit("s")
    await Book(cluster).tell(verdict("s"))
    later = Book(cluster)
    await later.tell(verdict("s", Code.PLACED))
    assert await later.stored("s") is None


async def test_who_never_waited_costs_no_transaction(cluster: OrchestratedCluster) -> None:
    await cluster.submit("s")
    book = Book(cluster)
    await book.tell()
    assert await book.tell(verdict("s", Code.PLACED)) == 0
    book.book.clear()
    assert await book.tell(verdict("s", Code.PLACED)) == 1


async def test_a_new_code_goes_out_at_once_and_new_words_do_not(cluster: OrchestratedCluster) -> None:
    await cluster.submit("s")
    book = Book(cluster)
    await book.tell(verdict("s"))
    assert await book.told() == [("NOT_ENOUGH_FREE", ("s",))]
    await cluster.clock.advance(1)
    assert await book.tell(verdict("s", summary="nearly room")) == 1
    await cluster.clock.advance(30)
    assert await book.tell(verdict("s", summary="nearly room")) == 1
    assert await book.told() == []
    await book.tell(verdict("s", Code.NEVER_FITS))
    assert await book.told() == [("NEVER_FITS", ("s",))]


async def test_many_who_hear_the_same_go_out_in_few_events(cluster: OrchestratedCluster) -> None:
    names = [f"s{number:03}" for number in range(150)]
    for name in names:
        await cluster.submit(name)
    book = Book(cluster)
    transactions = await book.tell(*[verdict(name) for name in names])
    told = await book.told()
    assert len(told) == transactions == 2
    assert sorted(name for _, ids in told for name in ids) == names
