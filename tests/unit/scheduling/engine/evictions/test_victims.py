"""VictimTable: running kernels as columns, and the gangs of their sessions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.unit.scheduling.engine.evictions.takers import TakerParts, cluster, runs
from tests.unit.scheduling.little_cluster import session


def parts(*sessions: object, **more: object) -> TakerParts:
    waiting = session("taker", "cpu=1", priority=9)
    return TakerParts(cluster(*sessions, waiting, **more))  # type: ignore[arg-type]  # any keyword of a snapshot


def test_surplus_may_go_and_any_part_of_a_broken_gang() -> None:
    table = parts(runs("wide", "a", "b", min_kernels=1), runs("short", "c", min_kernels=2)).table
    wide, short = table.sessions
    assert wide.keeps_gang({0})
    assert not wide.keeps_gang({0, 1})
    assert short.broken
    assert short.keeps_gang({2})
    assert wide.surplus([1, 0]) == [1]


def test_lost_work_counts_from_the_last_checkpoint_or_the_assumed_one() -> None:
    made = parts(
        runs("saved", "a", running_since_ms=0, checkpoint_ms=880_000),
        runs("silent", "b", running_since_ms=0),
        runs("young", "c", running_since_ms=990_000),
        runs("unknown", "d"),
        now_ms=1_000_000,
    )
    assert [loss // 1_000_000 for loss in made.table.losses] == [120, 600, 10, 0]


def test_a_set_is_legal_if_each_session_keeps_its_gang_or_goes_whole() -> None:
    made = parts(runs("pair", "a", "b"))
    assert not made.table.legal([0], whole=made.rules.whole)
    assert made.table.legal([0, 1], whole=made.rules.whole)
    made.table.keep_off("pair")
    assert made.table.untouchable.tolist() == [True]


def test_a_session_that_states_how_often_it_saves_loses_no_more_than_that() -> None:
    def lost(**more: Any) -> int:
        one = replace(runs("low", "a"), running_since_ms=0, **more)
        return TakerParts(cluster(one, session("taker"), now_ms=3_600_000)).table.losses[0] // 1_000_000

    assert (lost(), lost(saves_every_ms=60_000), lost(saves_every_ms=900_000)) == (600, 60, 600)
    assert lost(saves_every_ms=60_000, checkpoint_ms=3_595_000) == 5
    assert lost(saves_every_ms=60_000, checkpoint_ms=0) == 60
