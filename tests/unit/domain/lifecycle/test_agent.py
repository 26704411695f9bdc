"""The life of an agent: silence is suspected first and believed later."""

from __future__ import annotations

import pytest

from sokovan.domain.errors import ForbiddenCause, IllegalTransition
from sokovan.domain.lifecycle.agent import AGENT, SCHEDULABLE, AgentStatus, AgentTrigger
from sokovan.domain.lifecycle.transition_table import Cause
from tests.unit.domain.lifecycle.arrows import arrows, causes, drawn, entrances, limits


def test_the_moves_are_those_of_the_diagram() -> None:
    assert arrows(AGENT) == drawn("""
        ALIVE -> SUSPECT -> LOST -> TERMINATED
        SUSPECT -> ALIVE
        LOST -> ALIVE
        ALIVE -> DRAINING -> TERMINATED
        SUSPECT -> DRAINING
        DRAINING -> ALIVE
        DRAINING -> LOST
        LOST -> DRAINING
        ALIVE -> TERMINATED
    """)


def test_only_an_agent_that_is_alive_gets_new_kernels() -> None:
    assert [state for state in AgentStatus if state in SCHEDULABLE] == [AgentStatus.ALIVE]


def test_a_silent_agent_is_suspected_before_it_is_lost() -> None:
    assert entrances(AGENT, "lost") == {"suspect", "draining"}
    assert limits(AGENT) == {"suspect": (45, "lost")}
    assert AGENT.transient == {AgentStatus.SUSPECT}


def test_a_blip_on_the_network_loses_nothing() -> None:
    state = AGENT.after(AgentStatus.ALIVE, AgentTrigger.HEARTBEAT_MISSED, by=Cause.COORDINATOR)
    assert AGENT.after(state, AgentTrigger.HEARTBEAT_RESUMED, by=Cause.AGENT_REPORT) is AgentStatus.ALIVE


def test_draining_survives_silence() -> None:
    lost = AGENT.after(AgentStatus.DRAINING, AgentTrigger.DECLARED_LOST, by=Cause.COORDINATOR)
    assert AGENT.after(lost, AgentTrigger.REJOINED_DRAINING, by=Cause.AGENT_REPORT) is AgentStatus.DRAINING
    with pytest.raises(IllegalTransition):
        AGENT.after(AgentStatus.DRAINING, AgentTrigger.HEARTBEAT_MISSED, by=Cause.COORDINATOR)


def test_a_suspect_that_says_goodbye_must_first_be_heard_again() -> None:
    with pytest.raises(IllegalTransition):
        AGENT.after(AgentStatus.SUSPECT, AgentTrigger.LEFT, by=Cause.AGENT_REPORT)


@pytest.mark.parametrize(
    ("trigger", "allowed"),
    [
        (AgentTrigger.HEARTBEAT_MISSED, {Cause.COORDINATOR}),
        (AgentTrigger.HEARTBEAT_RESUMED, {Cause.AGENT_REPORT}),
        (AgentTrigger.DECLARED_LOST, {Cause.COORDINATOR}),
        (AgentTrigger.REJOINED, {Cause.AGENT_REPORT}),
        (AgentTrigger.REJOINED_DRAINING, {Cause.AGENT_REPORT}),
        (AgentTrigger.DRAIN_REQUESTED, {Cause.CONTROLLER}),
        (AgentTrigger.DRAIN_REVOKED, {Cause.CONTROLLER}),
        (AgentTrigger.LEFT, {Cause.AGENT_REPORT}),
        (AgentTrigger.DECLARED_GONE, {Cause.CONTROLLER}),
    ],
)
def test_each_trigger_is_pulled_by_those_who_can_know(trigger: AgentTrigger, allowed: set[Cause]) -> None:
    assert causes(AGENT, trigger) == allowed


def test_only_a_person_can_say_that_a_lost_host_is_gone() -> None:
    with pytest.raises(ForbiddenCause, match="declared_gone of a agent may come from controller"):
        AGENT.after(AgentStatus.LOST, AgentTrigger.DECLARED_GONE, by=Cause.COORDINATOR)
