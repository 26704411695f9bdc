"""EvictionTrial: a proof under every rule that leaves no trace if it fails."""

from __future__ import annotations

from typing import Any

from sokovan.domain.owners.policy import Scope
from sokovan.domain.slot_notation import parse_slots
from sokovan.scheduling.snapshot import OwnerUsage
from tests.unit.scheduling.engine.evictions.takers import TakerParts, cluster, runs
from tests.unit.scheduling.little_cluster import limits, session


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
