"""Consolidation: sessions move so that a fragmented one fits, and each has a place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.scheduling.engine.evictions.moves import (
    MoveTrial,
    has_scattered_room,
    in_transit,
    move_cost,
    with_room_held,
)
from sokovan.scheduling.engine.evictions.rules import EvictionOptions
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.snapshot import Reservation, SessionWorkload, SystemSnapshot
from tests.unit.scheduling.engine.evictions.takers import TakerParts, cluster, runs
from tests.unit.scheduling.little_cluster import decide, kernel, session, started, verdict_of, where

HOUR = 3_600_000


def consolidated(*sessions: SessionWorkload, options: EvictionOptions | None = None, **more: Any) -> SchedulingPlan:
    seen = cluster(*sessions, cpu=2, **more)
    chosen = options or EvictionOptions()
    return decide(seen, actions=("allocate", "consolidate"), queue_policy="capacity", eviction_options=chosen)


def moved(plan: SchedulingPlan) -> dict[str, str]:
    return {str(one.kernel_id): str(one.agent_id) for one in plan.moves}


def movable(name: str, at: str, **more: Any) -> SessionWorkload:
    return runs(name, at, migratable=True, **more)


BIG = session("big", "cpu=2")


def test_the_session_that_loses_least_moves_and_the_big_one_gets_its_room() -> None:
    plan = consolidated(
        movable("x", "a", running_since_ms=0),
        movable("y", "b", running_since_ms=0, checkpoint_ms=HOUR),
        BIG,
        now_ms=HOUR,
    )
    assert moved(plan) == {"y.0": "a"}
    assert [(one.session_id, one.agents) for one in plan.reservations] == [("big", ("b",))]
    assert "the room of 1 kernel that has to leave for it" in verdict_of(plan, "big").summary
    assert (plan.evictions, plan.placements) == ((), ())


def test_only_sessions_that_allow_it_are_moved_and_at_most_once_an_hour() -> None:
    assert moved(consolidated(runs("x", "a"), runs("y", "b"), BIG)) == {}
    assert moved(consolidated(runs("x", "a"), movable("y", "b"), BIG)) == {"y.0": "a"}
    assert moved(consolidated(movable("x", "a", moved_ms=1), runs("y", "b"), BIG, now_ms=HOUR)) == {}
    assert moved(consolidated(movable("x", "a", moved_ms=0), runs("y", "b"), BIG, now_ms=HOUR)) == {"x.0": "b"}


def test_nothing_moves_without_a_place_to_go() -> None:
    plan = consolidated(movable("x", "a"), runs("y", "b", slots="cpu=2"), BIG)
    assert (moved(plan), plan.reservations) == ({}, ())


def test_nothing_moves_if_the_room_elsewhere_is_in_pieces_as_well() -> None:
    large = [runs(name, at, slots="cpu=1.5") for name, at in (("x", "a"), ("y", "b"), ("z", "c"))]
    plan = consolidated(movable("w", "d", slots="cpu=1.5"), *large, BIG)
    assert (moved(plan), plan.reservations) == ({}, ())


def test_a_gang_moves_whole() -> None:
    plan = consolidated(runs("gang", "a", "b", migratable=True), session("big", "cpu=2", "cpu=2"), agents=("c",))
    assert set(moved(plan)) == {"gang.0", "gang.1"}
    assert len(set(moved(plan).values())) == 1, "one agent is left for both"


def test_a_move_that_costs_too_much_is_not_made() -> None:
    running = (movable("x", "a", running_since_ms=0), runs("y", "b"), BIG)
    cheap = EvictionOptions(move_cost_max=659)
    assert moved(consolidated(*running, options=cheap, now_ms=HOUR)) == {}
    assert moved(consolidated(*running, options=EvictionOptions(move_cost_max=660), now_ms=HOUR)) == {"x.0": "b"}


def test_one_session_benefits_in_a_cycle() -> None:
    running = [movable(name, name) for name in "abcd"]
    plan = consolidated(*running, session("big1", "cpu=2"), session("big2", "cpu=2"))
    assert len(plan.moves) == 1
    assert [one.session_id for one in plan.reservations] == ["big1"]


def test_a_trial_leaves_every_number_as_it_was() -> None:
    parts = TakerParts(cluster(movable("x", "a"), movable("y", "b"), session("taker", "cpu=2"), cpu=2))
    trial, workspace = MoveTrial(parts.engine, parts.table), parts.engine.context.workspace
    room, used = workspace.room.copy(), list(parts.pending.node.allocated)
    assert trial.fits(parts.pending, parts.rows("x.0")) is not None
    assert trial.fits(parts.pending, parts.rows("x.0", "y.0")) is None
    assert np.array_equal(workspace.room, room)
    assert (parts.pending.node.allocated, workspace.releases) == (used, False)


def test_scattered_room_is_enough_in_sum_and_costs_count_work_and_restarts() -> None:
    parts = TakerParts(
        cluster(movable("x", "a", running_since_ms=-1000), session("taker", "cpu=2"), cpu=2, agents=("b",))
    )
    assert has_scattered_room(parts.engine.context.workspace, parts.pending)
    full = TakerParts(cluster(movable("x", "a"), session("taker", "cpu=2"), cpu=2))
    assert not has_scattered_room(full.engine.context.workspace, full.pending)
    assert move_cost(parts.table, parts.rows("x.0"), EvictionOptions()) == 61


def reserved(name: str, **places: str) -> Reservation:
    """A reservation of kernels of a session, by their number: k0="a"."""
    pairs = [(KernelId(f"{name}.{number[1:]}"), AgentId(agent)) for number, agent in places.items()]
    return Reservation(SessionId(name), tuple(pairs))


def leaving(name: str, *agents: str, **more: Any) -> SessionWorkload:
    """A session whose kernels are being released."""
    kernels = [kernel(f"{name}.{number}", on=at, releasing=True) for number, at in enumerate(agents)]
    return session(name, *kernels, **more)


def emptying(*sessions: SessionWorkload, **more: Any) -> SystemSnapshot:
    """Agents a and b of two cpu, on which kernels that are being released count as such."""
    seen = cluster(*sessions, cpu=2, agents=("a", "b"), **more)
    running = [one for each in sessions for one in each.kernels]
    agents = tuple(
        replace(
            agent,
            releasing_slots=sum(
                (one.slots for one in running if one.agent == agent.agent_id and one.releasing),
                start=agent.occupied_slots - agent.occupied_slots,
            ),
            releasing_count=sum(one.agent == agent.agent_id and one.releasing for one in running),
        )
        for agent in seen.agents
    )
    return replace(seen, agents=agents)


def test_the_place_of_a_session_in_transit_is_kept_until_it_waits() -> None:
    x, big, small = leaving("x", "a"), session("big", "cpu=2"), session("small", "cpu=2")
    held = (reserved("big", k0="a"), reserved("x", k0="b"))
    plan = decide(emptying(x, big, small, reservations=held), queue_policy="capacity")
    assert plan.placements == ()
    assert set(plan.reservations) == set(held)
    # It has left a, and waits: now it gets its place, and the big one the room that it left.
    waits = session("x", "cpu=1")
    plan = decide(emptying(waits, big, small, reservations=held), queue_policy="capacity")
    assert where(plan) == {"x.0": "b", "big.0": "a"}


def test_without_a_reservation_a_kernel_that_leaves_keeps_nothing() -> None:
    plan = decide(emptying(leaving("x", "a"), session("small", "cpu=2")), queue_policy="capacity")
    assert started(plan) == ["small"]


def test_only_kernels_that_leave_are_in_transit() -> None:
    pair = session("pair", kernel("pair.0", on="a", releasing=True), kernel("pair.1"))
    seen = emptying(pair, reservations=(reserved("pair", k0="b", k1="b"), reserved("gone", k0="a")))
    assert in_transit(seen) == (reserved("pair", k0="b"),)
    assert in_transit(emptying(session("waits"), reservations=(reserved("waits", k0="a"),))) == ()


def test_a_kernel_that_waits_for_the_rest_of_its_session_keeps_its_place_as_well() -> None:
    gang = leaving("gang", "a")
    seen = emptying(gang, reservations=(reserved("gang", k0="b", k1="b"),))
    [moving] = in_transit(seen)
    agents = {str(one.agent_id): one for one in with_room_held(seen, [moving]).agents}
    assert (agents["b"].occupied_slots["cpu"], agents["b"].kernel_count) == (2000, 2)
    assert agents["a"] == seen.agents[0]
