"""Changes of the fleet: applied to the columns of before, they give those of after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.api.fleet.changes import change_view, fleet_difference
from sokovan.api.fleet.columns import FleetReading, fleet_of, fleet_view, seen_by
from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.agent_health import AgentHealth
from sokovan.domain.ids import AgentId, SessionId
from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.domain.owners.access import UNOWNED, Ownership
from sokovan.domain.records import AgentRecord, Device, HeldDevice
from sokovan.domain.slots import ResourceSlot
from sokovan.ports.agent_states import AgentState, DeviceFigures
from sokovan.sdk.core.streams.fleet import changed_fleet
from sokovan.wire.api.topology import FleetChangeView
from tests.quick import at_most

USERS, DOMAINS = ("ada", "bob"), ("north", "south")
SCOPES = (UNOWNED, Ownership(user="ada"), Ownership(domain="south"))
DEVICES = st.lists(st.sampled_from(["cuda0", "cuda1", "cuda2"]), unique=True, max_size=3)
FIGURES = st.builds(
    DeviceFigures, use_percent=st.none() | st.integers(0, 2), temperature_c=st.none() | st.integers(30, 31)
)
AMOUNT = st.integers(0, 2)


@st.composite
def readings(draw: st.DrawFn) -> FleetReading:
    """A few agents with devices that are held by sessions of two users, below HyperNodes that come and go."""
    agents, holds, states = [], {}, {}
    for name in sorted(draw(st.sets(st.sampled_from(["a1", "a2", "b1", "b2"])))):
        agent_id = AgentId(name)
        fault = draw(st.sampled_from(["", "", "too hot"]))
        devices = tuple([Device(one, "cuda.device", draw(st.integers(1, 2)), fault) for one in draw(DEVICES)])
        failing_ms = draw(st.sampled_from([None, None, 7]))
        info = AgentInfo(
            agent_id,
            ResourceSlot({"cuda.device": len(devices)} if devices else {}),
            ResourceSlot({"cpu": used} if (used := draw(AMOUNT)) else {}),
            status=draw(st.sampled_from([AgentStatus.ALIVE, AgentStatus.DRAINING])),
            kernel_count=draw(AMOUNT),
            health=AgentHealth(failing_ms=failing_ms),
        )
        agents.append(AgentRecord(info, 1, devices))
        holds[agent_id] = tuple([held(agent_id, one, draw(AMOUNT)) for one in devices for _ in range(draw(AMOUNT))])
        if draw(st.booleans()):
            figures = draw(st.dictionaries(st.sampled_from(["cuda0", "cuda1"]), FIGURES))
            states[agent_id] = AgentState(agent_id, 1, 1, devices=figures)
    tree = {str(one.info.agent_id): rack for one in agents if (rack := draw(st.sampled_from(["", "r1", "r2"])))}
    parents = {**tree, **{rack: "z1" for rack in sorted(set(tree.values())) if draw(st.booleans())}}
    away = draw(st.sets(st.sampled_from(["a1", "b1"])))
    return FleetReading(draw(st.integers(0, 9)), agents, parents, holds, states, lambda agent_id: agent_id not in away)


def held(agent_id: AgentId, device: Device, number: int) -> HeldDevice:
    user, domain = USERS[number % 2], DOMAINS[number // 2]
    return HeldDevice(agent_id, device.device_id, 1, SessionId(f"s{number}"), f"job-{number}", "q", user, domain)


def read_by(view: object) -> FleetChangeView:
    """As a client reads it."""
    return msgspec.json.decode(msgspec.json.encode(view), type=FleetChangeView)


@pytest.mark.slow
@at_most(300)
@given(st.lists(readings(), min_size=2, max_size=4))
def test_changes_that_are_applied_one_after_another_give_what_is_read_then(times: Sequence[FleetReading]) -> None:
    fleet = fleet_of(times[0])
    seen = {scope: fleet_view(fleet, seen_by(scope)) for scope in SCOPES}
    for reading in times[1:]:
        before, fleet = fleet, fleet_of(reading, fleet)
        found = fleet_difference(before, fleet)
        for scope in SCOPES:
            whole = fleet_view(fleet, seen_by(scope))
            if found is None:
                assert replace(seen[scope], as_of=whole.as_of) == whole
            else:
                seen[scope] = changed_fleet(seen[scope], read_by(change_view(found, seen_by(scope))))
                assert seen[scope] == whole


@at_most(100)
@given(readings(), readings())
def test_what_is_kept_of_agents_makes_no_difference(one: FleetReading, other: FleetReading) -> None:
    kept, anew = fleet_of(other, fleet_of(one)), fleet_of(other)
    assert fleet_view(kept, seen_by(UNOWNED)) == fleet_view(anew, seen_by(UNOWNED))
    assert fleet_difference(kept, anew) is None
    again = fleet_of(other, anew)
    assert all(again.agents[name] is columns for name, columns in anew.agents.items())
