"""The fleet as a client follows it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from sokovan.sdk.core.calls import SEEN_HEADER
from sokovan.sdk.core.streams.fleet import FleetFollower, FleetUpdate, changed_fleet
from sokovan.sdk.core.streams.server_events import KEEP_ALIVE, ServerEvent
from sokovan.sdk.errors import ApiProblem, UnexpectedAnswer
from sokovan.wire.api.fleet import DeviceHolder, FleetView
from sokovan.wire.api.system import ProblemView
from sokovan.wire.api.topology import FleetChangeView

ADA, BOB = (DeviceHolder(id=name, name=name, user=name, queue="q") for name in ("ada-1", "bob-1"))
FLEET = FleetView(
    as_of="t0", hypernodes=["r1"], hypernode_parent=[-1], holders=[BOB], agents=["a2", "a3"], status=["alive", "alive"],
    connected=[True, True], kernels=[0, 1], hypernode=[-1, 0], device=["g0", "g0", "g1"], device_agent=[0, 1, 1],
    device_slot=["gpu"] * 3, device_units=[1] * 3, device_used=[0, 1, 0], device_holder=[-1, 0, -1],
    device_fault=[""] * 3, failing={"a2": "ill"}, slots={"gpu": 3}, used={"gpu": 1},
)  # fmt: skip


def event(name: str, content: Any, place: str = "p.1") -> ServerEvent:
    return ServerEvent(name, msgspec.json.encode(content).decode(), place)


def test_new_values_are_at_their_places_and_holders_by_id() -> None:
    change = FleetChangeView(
        as_of="t1", device_at=[0, 2], device_used=[1, 1], device_holder=[0, 1], device_fault=["", "hot"],
        holders=[ADA, BOB], agent_at=[1], status=["draining"], connected=[False], kernels=[2], hypernode=[-1],
        failing={"a2": "", "a3": "ill"}, used={"gpu": 3},
    )  # fmt: skip
    assert changed_fleet(FLEET, change) == replace(
        FLEET, as_of="t1", holders=[ADA, BOB], device_used=[1, 1, 1], device_holder=[0, 1, 1],
        device_fault=["", "", "hot"], status=["alive", "draining"], connected=[True, False], kernels=[0, 2],
        hypernode=[-1, -1], failing={"a3": "ill"}, used={"gpu": 3},
    )  # fmt: skip


def test_a_holder_that_no_device_names_is_left_out() -> None:
    freed = FleetChangeView(as_of="t1", device_at=[1], device_used=[0], device_holder=[-1], device_fault=[""])
    assert changed_fleet(FLEET, freed).holders == []
    hidden = replace(freed, device_used=[1], device_holder=[-2])
    assert changed_fleet(FLEET, hidden).device_holder == [-1, -2, -1]


def test_agents_join_by_name_with_their_devices_and_leave_with_them() -> None:
    change = FleetChangeView(
        as_of="t1", gone=["a2"], joined=["a1", "a4"], joined_devices=[2, 0], device=["x", "y"],
        device_slot=["fpga", "fpga"], device_units=[4, 4], agent_at=[0, 2], status=["alive", "suspect"],
        connected=[True, False], kernels=[7, 8], hypernode=[0, -1], measured=True, figure_at=[1], device_use=[9],
        device_memory=[8], device_temperature=[30],
    )  # fmt: skip
    found = changed_fleet(FLEET, change)
    assert (found.agents, found.status, found.kernels) == (["a1", "a3", "a4"], ["alive", "alive", "suspect"], [7, 1, 8])
    assert (found.device, found.device_agent) == (["x", "y", "g0", "g1"], [0, 0, 1, 1])
    assert (found.device_units, found.device_holder) == ([4, 4, 1, 1], [-1, -1, 0, -1])
    assert (found.device_use, found.failing) == ([-1, 9, -1, -1], {})
    assert changed_fleet(found, FleetChangeView(as_of="t2")).device_use == [], "nothing is measured any more"


def test_a_follower_applies_changes_and_resumes_after_the_last_one() -> None:
    follower = FleetFollower()
    assert (follower.call().path, dict(follower.call().headers)) == ("/api/v1/fleet/events", {})
    assert follower.accept(KEEP_ALIVE) is None
    assert follower.accept(event("fleet", FLEET)) == FleetUpdate(FLEET)
    change = FleetChangeView(as_of="t1", used={"gpu": 2})
    update = follower.accept(event("change", change, "p.2"))
    assert update == FleetUpdate(replace(FLEET, as_of="t1", used={"gpu": 2}), change)
    assert follower.call().headers == {SEEN_HEADER: "p.2"}
    assert not follower.is_over()


def test_a_stream_that_begins_with_a_change_or_ends_with_a_problem_fails() -> None:
    with pytest.raises(UnexpectedAnswer, match="begins with a change"):
        FleetFollower().accept(event("change", FleetChangeView(as_of="t1")))
    problem = ProblemView(
        type="", title="no", status=503, detail="away", code="store-unavailable", hint="", request_id=""
    )
    with pytest.raises(ApiProblem, match="away"):
        FleetFollower().accept(event("problem", problem))
