"""ClusterTotals: sums over all agents as sentences."""

from __future__ import annotations

import pytest

from sokovan.domain.cluster.agent_claims import UNAPPROVED_LABEL
from sokovan.domain.cluster.agent_health import HEALTHY
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.scheduling.engine.usage.cluster_totals import ClusterTotals
from sokovan.scheduling.engine.usage.queue_usage import QueueRefusal
from sokovan.scheduling.trace import Check, Code
from tests.unit.scheduling.engine.builders import EngineParts, agent, agents, gang, planned, snapshot


def refused(request: int, limit: int, held: int = 0) -> QueueRefusal:
    return QueueRefusal(Code.QUEUE_OVER_SHARE, "default", "cpu", request, 0, limit, held)


def test_a_queue_may_have_all_of_a_slot_or_a_part() -> None:
    totals = ClusterTotals(EngineParts(*agents(2, "cpu=4")).workspace)
    assert totals.limit_is_total(refused(1000, 8000))
    assert not totals.limit_is_total(refused(1000, 7999))


def test_a_shortage_names_used_and_total_amounts() -> None:
    full = ClusterTotals(EngineParts(agent("a", "cpu=2", used="cpu=2")).workspace)
    assert full.shortage(refused(1000, 2000)) == "insufficient resources: 2 of 2 cpu are in use; the session requests 1"
    assert full.free("cpu") == "free now: 0 of 2 cpu"
    half = ClusterTotals(EngineParts(agent("a", "cpu=8", used="cpu=2")).workspace)
    text = "insufficient resources: 2 of 8 cpu are in use; the session requests 8"
    assert half.shortage(refused(7000, 8000, held=1000)) == text


def test_agents_that_take_no_work_offer_nothing() -> None:
    machines = [agent("a", "cpu=4", used="cpu=4"), agent("b", "cpu=4", used="cpu=1", status=AgentStatus.DRAINING)]
    assert ClusterTotals(EngineParts(*machines).workspace).free("cpu") == "free now: 0 of 5 cpu"


def test_devices_that_are_out_of_service_are_named_and_counted() -> None:
    healths = [HEALTHY, HEALTHY.with_faults({"g1": "lost"}), HEALTHY.with_faults({"g2": "hot"})]
    machines = [agent(f"a{number}", "cpu=1", health=health) for number, health in enumerate(healths)]
    assert ClusterTotals(EngineParts(*machines[:1]).workspace).faults == ""
    assert ClusterTotals(EngineParts(*machines[:2]).workspace).faults == "device g1 of a1 is out of service: lost"
    more = "device g1 of a1 is out of service: lost (1 more are)"
    assert ClusterTotals(EngineParts(*machines).workspace).faults == more


def test_agents_that_were_not_approved_get_nothing_and_are_named_so() -> None:
    machines = [agent("a", "cpu=1"), agent("b", "cpu=8", labels={UNAPPROVED_LABEL: "1"})]
    verdict = planned(snapshot(machines, gang("s", 1, "cpu=4"))).trace[SessionId("s")]
    text = "no agent that could hold cpu=4 accepts work: 1 of 2 agents are not approved yet (sokovan agent approve)"
    assert (verdict.code, verdict.summary) == (Code.NODES_DRAINING, text)


@pytest.mark.parametrize(
    ("states", "away"),
    [
        ([AgentStatus.ALIVE], ""),
        ([AgentStatus.DRAINING], "its only agent is being drained"),
        ([AgentStatus.DRAINING, AgentStatus.DRAINING], "all 2 agents are being drained"),
        ([AgentStatus.ALIVE, AgentStatus.DRAINING], "1 of 2 agents are being drained"),
        ([AgentStatus.ALIVE, AgentStatus.SUSPECT, AgentStatus.LOST], "2 of 3 agents are not reachable"),
        (
            [AgentStatus.ALIVE, AgentStatus.LOST, AgentStatus.DRAINING],
            "1 of 3 agents are not reachable, 1 of 3 agents are being drained",
        ),
    ],
)
def test_unavailable_agents_are_counted_by_reason(states: list[AgentStatus], away: str) -> None:
    machines = [agent(f"b{index}", "cpu=1", status=status) for index, status in enumerate(states)]
    assert ClusterTotals(EngineParts(*machines).workspace).unavailable == away


def test_a_session_that_waits_for_a_device_is_told_of_faults_and_others_are_not() -> None:
    faulty = HEALTHY.with_faults({"g1": "it is lost"})
    given = [agent("a", "cpu=1,cuda.device=1", used="cpu=1", health=faulty)]
    text = "device g1 of a is out of service: it is lost"
    for request, code in (("cuda.device=2", Code.NEVER_FITS), ("cuda.device=1,cpu=1", Code.NOT_ENOUGH_FREE)):
        verdict = planned(snapshot(given, gang("s", 1, request))).trace[SessionId("s")]
        assert verdict.code is code
        assert verdict.summary.endswith(f"; {text}")
        assert verdict.checks[-1] == Check("devices", "short", text)
    assert text not in planned(snapshot(given, gang("s", 1, "cpu=1"))).trace[SessionId("s")].summary
