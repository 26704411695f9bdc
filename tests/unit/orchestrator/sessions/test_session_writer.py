"""Decisions of handlers become few writes, and a late decision loses."""

from collections.abc import Sequence

import pytest

from sokovan.domain.events import Event, VerdictsChanged
from sokovan.domain.ids import KernelId, SessionId
from sokovan.domain.lifecycle.kernel import FreeProof, KernelStatus, KernelTrigger
from sokovan.domain.lifecycle.session import Goal, SessionStatus
from sokovan.domain.owners import turns
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.records import DETAIL_MAX, SessionRecord
from sokovan.orchestrator.batch_writer import BatchWriter
from sokovan.orchestrator.quarantine import Quarantine
from sokovan.orchestrator.sessions.session_cache import LARGE, SessionCache, SessionCacheReader
from sokovan.orchestrator.sessions.session_writer import (
    DIVISIBLE,
    Freeing,
    SessionMoves,
    SessionStep,
    SessionWriter,
    by_coordinator,
    by_report,
    first_slice,
)
from sokovan.testing.orchestrated_cluster import OrchestratedCluster
from tests.unit.adapters.sql.statements import recorded_statements

pytestmark = pytest.mark.slow

READY, CREATE = KernelTrigger.IMAGE_READY, KernelTrigger.CREATION_REQUESTED


class Harness:
    """A writer, and the copy that it keeps."""

    def __init__(self, cluster: OrchestratedCluster) -> None:
        self.cluster = cluster
        self.live = SessionCache(lambda _before, _after: None)
        self.reader = SessionCacheReader(self.live, cluster.store)
        self.batches, self.quarantine = BatchWriter(cluster.store), Quarantine(cluster.clock)
        self.writer = SessionWriter(self.batches, self.live, self.quarantine)

    async def scheduled(self, *names: str) -> list[SessionRecord]:
        """Sessions that have a place, and are in the copy."""
        for name in names:
            await self.cluster.submit(name)
            await self.cluster.stored.place(name, "a1")
        await self.reader.load()
        return [record for name in names if (record := self.live.get(SessionId(name))) is not None]


@pytest.fixture
async def harness(cluster: OrchestratedCluster) -> Harness:
    await cluster.agent("a1")
    return Harness(cluster)


def ready_and_asked(session: SessionRecord) -> Sequence[SessionStep]:
    kernels = tuple(kernel.kernel_id for kernel in session.kernels)
    return SessionStep(READY, by_report(), kernels), SessionStep(CREATE, by_coordinator(), kernels)


async def test_many_sessions_take_two_steps_in_one_transaction(harness: Harness) -> None:
    sessions = await harness.scheduled("s1", "s2", "s3")
    moved = await harness.writer.move("test", harness.writer.decide("test", sessions, ready_and_asked))
    assert [record.status.value for record in moved] == ["creating"] * 3
    assert harness.batches.transactions == 1
    assert all(harness.live.get(record.session_id) == record for record in moved)
    assert all(kernel.sent for record in moved for kernel in record.kernels)


async def test_a_session_that_was_changed_meanwhile_is_left_out_and_read_again(harness: Harness) -> None:
    sessions = await harness.scheduled("s1", "s2")
    await harness.cluster.stop("s1")
    moved = await harness.writer.move("test", [SessionMoves(one, tuple(ready_and_asked(one))) for one in sessions])
    assert [record.session_id for record in moved] == ["s2"]
    assert list(harness.live.stale) == ["s1"]
    assert harness.quarantine.take() == []


def ready_for(session: SessionRecord, taker: SessionRecord | None) -> SessionMoves:
    step = SessionStep(READY, by_report(), tuple(kernel.kernel_id for kernel in session.kernels), taker=taker)
    return SessionMoves(session, (step,))


async def test_a_session_whose_taker_was_changed_meanwhile_is_left_out_and_both_are_read_again(
    harness: Harness,
) -> None:
    sessions = await harness.scheduled("s1", "s2", "s3")
    takers = [await harness.cluster.submit(f"t{number}") for number in range(2)]
    await harness.cluster.stop("t0")
    plans = [ready_for(one, taker) for one, taker in zip(sessions, [*takers, None], strict=True)]
    moved = await harness.writer.move("test", plans)
    assert [record.session_id for record in moved] == ["s2", "s3"]
    assert list(harness.live.stale) == ["s1", "t0"]
    assert harness.quarantine.take() == []


@pytest.mark.parametrize("count", [1, 4])
async def test_takers_are_verified_without_a_statement_of_their_own(harness: Harness, count: int) -> None:
    statements: list[int] = []
    for with_takers in (False, True):
        sessions = await harness.scheduled(*[f"s{count}{with_takers}{number}" for number in range(count)])
        takers = [await harness.cluster.submit(f"t-{one.session_id}") if with_takers else None for one in sessions]
        plans = [ready_for(one, taker) for one, taker in zip(sessions, takers, strict=True)]
        with recorded_statements(harness.cluster.stored) as sent:
            assert len(await harness.writer.move("test", plans)) == count
        statements.append(len(sent))
    assert statements[0] == statements[1]


async def test_an_illegal_step_concerns_its_own_session_only(harness: Harness) -> None:
    sessions = await harness.scheduled("s1", "s2")
    good = SessionMoves(sessions[0], tuple(ready_and_asked(sessions[0])))
    bad = SessionMoves(sessions[1], (SessionStep(CREATE, by_coordinator(), (sessions[1].kernels[0].kernel_id,)),))
    moved = await harness.writer.move("test", [good, bad])
    assert [record.session_id for record in moved] == ["s1"]
    assert [(one.subject, one.code) for one in harness.quarantine.take()] == [("s2", "illegal-transition")]


async def test_a_decision_that_raises_sets_its_session_aside(harness: Harness) -> None:
    sessions = await harness.scheduled("s1", "s2")

    def decide(session: SessionRecord) -> Sequence[SessionStep]:
        if session.session_id == "s1":
            raise KeyError("oops")
        return ready_and_asked(session)

    plans = harness.writer.decide("test", sessions, decide)
    assert [plan.session.session_id for plan in plans] == ["s2"]
    assert not harness.quarantine.admits("s1")
    assert harness.writer.decide("test", sessions[:1], ready_and_asked) == []


async def test_steps_without_kernels_are_no_steps(harness: Harness) -> None:
    sessions = await harness.scheduled("s1")
    assert harness.writer.decide("test", sessions, lambda _session: [SessionStep(READY, by_report(), ())]) == []
    assert await harness.writer.move("test", []) == []
    assert await harness.writer.free("test", [], by_report()) == []
    assert await harness.writer.set_goal("test", [], Goal.STOP, by_coordinator()) == []
    await harness.writer.note([], by_coordinator())
    assert harness.batches.transactions == 0


async def test_a_proof_that_does_not_hold_frees_nothing_and_is_no_failure_of_ours(harness: Harness) -> None:
    sessions = await harness.scheduled("s1", "s2")
    await harness.writer.set_goal("test", [one.session_id for one in sessions], Goal.STOP, by_coordinator("test"))
    stopped = [record for one in sessions if (record := harness.live.get(one.session_id)) is not None]
    freed = await harness.writer.free(
        "test",
        [
            Freeing(stopped[0].session_id, stopped[0].kernels, FreeProof.HOST_GONE),
            Freeing(stopped[1].session_id, stopped[1].kernels, FreeProof.NEVER_SENT),
        ],
        by_coordinator("over"),
    )
    assert [record.session_id for record in freed] == ["s2"]
    assert harness.quarantine.take() == []
    assert list(harness.live.stale) == ["s1"]


async def published(cluster: OrchestratedCluster) -> list[Event]:
    """What the outbox gives now, taken."""
    events: list[Event] = []

    async def take(batch: Sequence[Event]) -> None:
        events.extend(batch)

    await cluster.store.outbox.publish_pending(take, limit=1000)
    return events


async def test_a_note_with_emit_is_published(harness: Harness) -> None:
    [session] = await harness.scheduled("s1")
    await published(harness.cluster)
    await harness.writer.note([session.session_id], by_coordinator("quiet"))
    await harness.writer.note([session.session_id], by_coordinator("loud"), emit=True)
    events = [event for event in await published(harness.cluster) if isinstance(event, VerdictsChanged)]
    assert [(event.session_ids, event.code) for event in events] == [(("s1",), "loud")]


async def test_a_note_is_added_to_all_sessions(harness: Harness) -> None:
    sessions = await harness.scheduled("s1", "s2")
    await harness.writer.note([one.session_id for one in sessions], by_coordinator("waits", "x" * 5000))
    for name in ("s1", "s2"):
        last = (await harness.cluster.history(name))[-1]
        assert (last.change.code, len(last.change.detail)) == ("waits", DETAIL_MAX)


async def running_gang(harness: Harness, size: int) -> SessionRecord:
    """A gang whose kernels have been requested, as the cache has it."""
    await harness.cluster.agent("large", slots={"cpu": 1_000_000, "mem": 1 << 50})
    await harness.cluster.submit("gang", kernels=size)
    await harness.cluster.stored.place("gang", *["large"] * size)
    await harness.reader.load()
    return harness.live.get(SessionId("gang"))  # type: ignore[return-value]  # it was loaded


async def test_writing_a_gang_reads_none_of_its_kernels(harness: Harness) -> None:
    gang = await running_gang(harness, 20)
    with recorded_statements(harness.cluster.stored) as statements:
        await harness.writer.move("test", [SessionMoves(gang, tuple(ready_and_asked(gang)))])
    stopped = (await harness.writer.set_goal("test", [gang.session_id], Goal.STOP, by_coordinator()))[0]
    for kernel in stopped.kernels:
        with recorded_statements(harness.cluster.stored) as freeing:
            one = Freeing(gang.session_id, (kernel,), FreeProof.AGENT_TOMBSTONE)
            [freed] = await harness.writer.free("test", [one], by_report("over"))
        statements += freeing
        # What was computed is what is stored.
        assert freed == await harness.cluster.stored.session("gang")
    assert (await harness.cluster.stored.session("gang")).status is SessionStatus.TERMINATED
    assert [one for one in statements if one.startswith("SELECT") and "FROM kernels" in one] == []


async def test_a_record_that_is_out_of_date_is_read_again_and_loses_nothing(harness: Harness) -> None:
    gang = await running_gang(harness, 2)
    ready = SessionStep(READY, by_report(), (gang.kernels[0].kernel_id,))
    await harness.writer.move("test", [SessionMoves(gang, (ready,))])
    # The other kernel has not changed: its move is valid, though the session has another version.
    other = SessionStep(READY, by_report(), (gang.kernels[1].kernel_id,))
    [moved] = await harness.writer.move("test", [SessionMoves(gang, (other,))])
    assert moved == await harness.cluster.stored.session("gang")
    assert [one.status for one in moved.kernels] == [KernelStatus.PREPARED] * 2


def step(trigger: KernelTrigger, *kernels: str) -> SessionStep:
    return SessionStep(trigger, by_coordinator(), tuple(map(KernelId, kernels)))


def test_a_slice_has_all_steps_of_its_first_kernels() -> None:
    steps = (step(READY, "b", "c"), step(CREATE, "a", "b", "c", "d"))
    assert first_slice(steps, 4) == steps
    assert first_slice(steps, 3) == (step(READY, "b", "c"), step(CREATE, "a", "b", "c"))
    assert first_slice(steps, 1) == (step(READY, "b"), step(CREATE, "b"))
    assert first_slice(steps, 0) == ()


def test_a_step_that_concerns_the_whole_gang_is_never_divided() -> None:
    for trigger in KernelTrigger:
        steps = (step(READY, "a", "b"), step(trigger, "a", "b"))
        assert (first_slice(steps, 1) == steps) is (trigger not in DIVISIBLE), trigger


async def test_small_sessions_move_in_slices_and_users_take_turns(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "SMALL_SLICE", 5)
    await harness.cluster.agent("large", slots={"cpu": 1_000_000, "mem": 1 << 50})
    owners = [*["array"] * 8, "shell", *["gang"] * 2]
    for number, user in enumerate(owners):
        size = 3 if user == "gang" else 1
        await harness.cluster.submit(f"s{number}", kernels=size, owner=Owner(user=user))
        await harness.cluster.stored.place(f"s{number}", *["large"] * size)
    await harness.reader.load()

    def decided() -> list[str]:
        plans = harness.writer.decide("test", list(harness.live.all()), ready_and_asked)
        return [plan.session.session_id for plan in plans]

    assert decided() == ["s8", "s9", "s0"]
    assert list(harness.live.unfinished) == harness.writer.left == ["s10", *(f"s{number}" for number in range(1, 8))]
    everything = harness.writer.decide("test", list(harness.live.all()), ready_and_asked, all_at_once=True)
    assert ([plan.session.session_id for plan in everything], harness.writer.left) == (
        [f"s{number}" for number in range(len(owners))],
        [],
    )


async def test_large_sessions_share_a_slice_and_small_ones_move_whole(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "SLICE", LARGE + 11)
    await harness.cluster.agent("large", slots={"cpu": 1_000_000, "mem": 1 << 50})
    sizes = {"first": LARGE + 1, "small": LARGE, "second": LARGE + 1, "third": LARGE + 1}
    for name, size in sizes.items():
        await harness.cluster.submit(name, kernels=size)
        await harness.cluster.stored.place(name, *["large"] * size)
    await harness.reader.load()
    plans = harness.writer.decide("test", list(harness.live.all()), ready_and_asked)
    assert {plan.session.session_id: [len(one.kernels) for one in plan.steps] for plan in plans} == {
        "first": [LARGE + 1] * 2,
        "small": [LARGE] * 2,
        "second": [10] * 2,
    }
    assert list(harness.live.unfinished) == harness.writer.left == ["second", "third"]
    for plan, record in zip(plans, await harness.writer.move("test", plans), strict=True):
        assert record == await harness.cluster.stored.session(record.session_id)
        assert plan.session.session_id in sizes
