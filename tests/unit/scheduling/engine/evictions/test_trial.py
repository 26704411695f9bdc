"""EvictionTrial: a proof under every rule that leaves no trace if it fails."""

from __future__ import annotations

from typing import Any

from sokovan.domain.cluster.queue import Queue
from sokovan.domain.ids import QueueName
from sokovan.domain.owners.policy import Scope
from sokovan.domain.slot_notation import parse_slots
from sokovan.scheduling.snapshot import OwnerUsage
from tests.unit.scheduling.engine.evictions.takers import TakerParts, cluster, runs
from tests.unit.scheduling.little_cluster import limits, session, slot_limits


def numbers(made: TakerParts) -> tuple[Any, ...]:
    """Every number that a decision may look at."""
    workspace, queues = made.engine.context.workspace, made.engine.context.queue_usage
    accounts = [
        (account.used.copy(), account.sessions)
        for session in made.table.sessions
        for account in made.engine.ledger.entry(session.session.owner).watched
    ]
    return (
        workspace.room.tolist(), workspace.held, workspace.releases, workspace.occupancy.tolist(), accounts,
        [(node.allocated.copy(), node.share, node.unused_column) for node in queues.nodes.values()],
    )  # fmt: skip


def test_a_failed_and_a_tentative_trial_leave_every_number_as_it_was() -> None:
    made = TakerParts(cluster(runs("low", "a"), runs("other", "b"), session("taker", "cpu=1", "cpu=1", priority=9)))
    before = numbers(made)
    assert made.trial.fits(made.pending, made.rows("low.0")) is None
    assert numbers(made) == before
    assert made.trial.fits(made.pending, made.rows("low.0", "other.0")) is not None
    assert numbers(made) == before


def test_owner_limits_are_asked_without_the_victims() -> None:
    taker = session("taker", priority=9, user="u")
    made = TakerParts(
        cluster(
            runs("low", "a", user="u"),
            taker,
            usage={Scope.USER: {"u": OwnerUsage(parse_slots("cpu=1"), 1)}},
            limits=limits(Scope.USER, "u", "cpu=1"),
        )
    )
    before = numbers(made)
    assert made.trial.fits(made.pending, ()) is None
    assert made.trial.fits(made.pending, made.rows("low.0")) is not None
    assert numbers(made) == before


def test_a_committed_trial_reserves_and_starts_nothing() -> None:
    made = TakerParts(cluster(runs("low", "a"), session("taker", priority=9), agents=["b"]))
    assert made.trial.commit(made.pending, made.rows("low.0")) is not None
    assert (made.pending.placed, made.pending.reserved) == (0, 1)


def test_a_taker_beyond_the_limit_of_its_owner_does_not_fit_although_there_is_room() -> None:
    made = TakerParts(
        cluster(
            runs("low", "a", user="u"),
            runs("other", "b", user="v"),
            session("taker", priority=9, user="u"),
            usage={Scope.USER: {"u": OwnerUsage(parse_slots("cpu=1"), 1)}},
            limits=limits(Scope.USER, "u", "cpu=1"),
        )
    )
    assert made.trial.fits(made.pending, made.rows("other.0")) is None
    assert made.trial.fits(made.pending, made.rows("low.0")) is not None


def test_a_taker_beyond_the_limit_of_its_queue_does_not_fit_although_there_is_room() -> None:
    limited = Queue(QueueName("mine"), capability=slot_limits("cpu=1"))
    made = TakerParts(
        cluster(
            runs("own", "a", queue="mine"),
            runs("other", "b", queue="over"),
            session("taker", queue="mine"),
            queues=(limited, Queue(QueueName("over"))),
        ),
        "reclaim",
    )
    assert made.trial.fits(made.pending, made.rows("other.0")) is None
    assert made.trial.fits(made.pending, made.rows("own.0")) is not None
