"""Verification at commit time, without a database."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.adapters.sql.allocation.devices import DeviceAllocator
from sokovan.adapters.sql.allocation.verification import limits_on, verify
from sokovan.adapters.sql.schema.tables import SESSIONS_SLOT
from sokovan.domain.ids import AgentId, KernelId
from sokovan.domain.lifecycle.kernel import KernelStatus
from sokovan.domain.lifecycle.session import Goal, SessionStatus
from sokovan.ports.allocation import (
    AgentChanged,
    AllocationError,
    AllocationRefused,
    DependencyChanged,
    IncompleteGang,
    QuotaPassed,
    SessionNotWaiting,
)
from sokovan.testing.stored_cluster import assignment
from tests.unit.adapters.sql.cluster_rows import kernel_state, locked_agent, locked_state, session_state

A1 = AgentId("a1")


def test_what_holds_is_accepted_with_what_it_takes() -> None:
    session = session_state("s", kernel_state("s.0", slots={"cpu": 3}), kernel_state("s.1", slots={"cpu": 4}))
    locked = locked_state(session)
    [accepted], refused = verify([assignment("s", "a1", "a1")], locked)
    assert refused == {}
    assert accepted.amounts == {"cpu": 7, SESSIONS_SLOT: 1}
    assert locked.agents[A1].free == {"cpu": 3}


def test_a_session_that_holds_something_is_no_new_session() -> None:
    running = kernel_state("s.0", status=KernelStatus.RUNNING)
    session = session_state("s", running, kernel_state("s.1"), status=SessionStatus.RUNNING, required=1)
    one = assignment("s", "a1")
    [accepted], _ = verify([type(one)(one.session_id, ((KernelId("s.1"), A1),))], locked_state(session))
    assert accepted.amounts == {"cpu": 1}


Cases = dict[str, tuple[type[AllocationError], dict[str, Any], dict[str, Any]]]
CASES: Cases = {
    "no such session": (SessionNotWaiting, {}, {"sessions": {}}),
    "a session to be stopped": (SessionNotWaiting, {"goal": Goal.STOP}, {}),
    "a session that ended": (SessionNotWaiting, {"status": SessionStatus.CANCELLED}, {}),
    "a gang in part": (IncompleteGang, {"required": 2}, {}),
    "a dependency": (DependencyChanged, {}, {"unmet": {"s"}}),
    "no such agent": (AgentChanged, {}, {"agents": {}}),
    "an agent without a sign of life": (AgentChanged, {}, {"agents": {A1: locked_agent(alive=False)}}),
    "another scaling group": (AgentChanged, {"scaling_group": "other"}, {}),
    "another architecture": (AgentChanged, {}, {"agents": {A1: locked_agent(architecture="aarch64")}}),
    "no room": (AllocationRefused, {}, {"agents": {A1: locked_agent(free={"cpu": 0})}}),
    "no such slot": (AllocationRefused, {}, {"agents": {A1: locked_agent(free={})}}),
    "no place": (AllocationRefused, {}, {"agents": {A1: locked_agent(kernels_left=0)}}),
    "more kernels than there may be": (AllocationRefused, {}, {"agents": {A1: locked_agent(kernels_left=-1)}}),
    "a limit": (QuotaPassed, {}, {"limits": {("user", "u"): {"cpu": 0}}}),
    "a limit that is reached": (
        QuotaPassed,
        {},
        {"limits": {("domain", "d"): {"cpu": 5}}, "used": {("domain", "d", "cpu"): 5}},
    ),
    "a number of sessions": (QuotaPassed, {}, {"limits": {("keypair", "k"): {SESSIONS_SLOT: 0}}}),
}


@pytest.mark.parametrize("case", CASES)
def test_what_no_longer_holds_is_refused_for_its_reason(case: str) -> None:
    kind, about_session, about_state = CASES[case]
    session = session_state("s", kernel_state("s.0"), **about_session)
    locked = locked_state(session, **deepcopy(about_state))
    accepted, refused = verify([assignment("s", "a1")], locked)
    assert accepted == []
    assert type(refused[session.session_id]) is kind


def test_an_incarnation_counts_only_where_the_decision_named_it() -> None:
    def refused_with(**incarnations: int) -> bool:
        locked = locked_state(session_state("s", kernel_state("s.0")), agents={A1: locked_agent(incarnation=2)})
        named = {AgentId(agent): number for agent, number in incarnations.items()}
        return bool(verify([assignment("s", "a1", incarnations=named)], locked)[1])

    assert [refused_with(), refused_with(a1=2), refused_with(a2=9), refused_with(a1=1)] == [False, False, False, True]


def test_a_topology_counts_only_where_the_decision_rested_on_it() -> None:
    for hypernode, kinds in ((None, []), ("rack1", [AgentChanged])):
        locked = locked_state(session_state("s", kernel_state("s.0")), topology_changed=True)
        _, refused = verify([assignment("s", "a1", hypernode=hypernode)], locked)
        assert [type(error) for error in refused.values()] == kinds


def test_labels_must_have_the_value_that_is_required() -> None:
    for labels, fits in (({}, False), ({"zone": "b"}, False), ({"zone": "a", "more": "x"}, True)):
        session = session_state("s", kernel_state("s.0", require={"zone": "a"}))
        accepted, _ = verify([assignment("s", "a1")], locked_state(session, agents={A1: locked_agent(labels=labels)}))
        assert bool(accepted) is fits


def test_a_gang_that_is_refused_gives_everything_back() -> None:
    devices = DeviceAllocator()
    devices.add("cuda.device", "gpu0", units=1, free=1)
    agent = locked_agent(free={"cpu": 10, "cuda.device": 1}, kernels_left=3, devices=devices)
    before = deepcopy(agent)
    gang = session_state("s", *[kernel_state(f"s.{index}", slots={"cpu": 1, "cuda.device": 1}) for index in range(2)])
    limits = {("user", "u"): {"cpu": 9}}
    locked = locked_state(gang, agents={A1: agent}, limits=limits)
    _, refused = verify([assignment("s", "a1", "a1")], locked)
    assert isinstance(refused[gang.session_id], AllocationRefused)
    assert agent == before
    assert locked.used == {}


def test_each_sees_what_those_before_it_took_and_nothing_of_those_refused() -> None:
    sessions = [session_state(f"s{n}", kernel_state(f"s{n}.0", slots={"cpu": n})) for n in (4, 9, 5, 1)]
    accepted, refused = verify([assignment(f"s{n}", "a1") for n in (4, 9, 5, 1)], locked_state(*sessions))
    assert [one.session.session_id for one in accepted] == ["s4", "s5", "s1"]
    assert list(refused) == ["s9"]


def test_the_first_of_two_assignments_of_a_session_counts() -> None:
    session = session_state("s", kernel_state("s.0"))
    accepted, refused = verify([assignment("s", "a1"), assignment("s", "a1")], locked_state(session))
    assert len(accepted) == 1
    assert isinstance(refused[session.session_id], SessionNotWaiting)


def test_limits_are_found_by_the_scopes_of_an_owner() -> None:
    limits = {("user", "u"): {"cpu": 3, "mem": 4}, ("user", "other"): {"cpu": 1}, ("domain", "d"): {"cpu": 9}}
    scopes = (("keypair", "k"), ("user", "u"), ("domain", "d"))
    assert limits_on(scopes, limits) == [("user", "u", "cpu", 3), ("user", "u", "mem", 4), ("domain", "d", "cpu", 9)]


amounts = st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=3), max_size=8)


@given(amounts, st.integers(0, 12), st.integers(0, 12), st.one_of(st.none(), st.integers(0, 6)))
def test_nothing_is_ever_taken_beyond_room_limit_or_places(
    asked: list[list[int]], room: int, limit: int, places: int | None
) -> None:
    sessions = [
        session_state(f"s{n}", *[kernel_state(f"s{n}.{i}", slots={"cpu": amount}) for i, amount in enumerate(kernels)])
        for n, kernels in enumerate(asked)
    ]
    agent = locked_agent(free={"cpu": room}, kernels_left=places)
    locked = locked_state(*sessions, agents={A1: agent}, limits={("group", "g"): {"cpu": limit}})
    accepted, refused = verify([assignment(f"s{n}", *["a1"] * len(kernels)) for n, kernels in enumerate(asked)], locked)
    taken = sum(one.amounts.get("cpu", 0) for one in accepted)
    count = sum(len(one.assignment.kernels) for one in accepted)
    assert len(accepted) + len(refused) == len(asked)
    assert agent.free["cpu"] == room - taken >= 0
    assert taken <= limit
    assert places is None or agent.kernels_left == places - count >= 0
    # Who was refused would still not fit, or would only now.
    for session in sessions:
        if session.session_id in refused:
            wanted = sum(kernel.slots["cpu"] for kernel in session.kernels.values())
            assert wanted > min(room, limit) - taken or (places is not None and len(session.kernels) > places - count)
