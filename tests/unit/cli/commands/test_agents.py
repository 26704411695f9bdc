"""`sokovan agent`."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from sokovan.wire.api.fleet import AgentFailureView
from sokovan.wire.api.tenancy import JoinTokenLine, JoinTokenView
from tests.unit.cli.canned_server import CannedServer, Sokovan
from tests.unit.sdk.agent_views import AGENT


def test_agents_are_listed_with_their_usage(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET agents", {"items": [AGENT], "next": None})
    status, out, _ = sokovan("agent", "ls")
    assert status == 0
    assert out.splitlines()[1].split()[:8] == ["gpu2", "ALIVE", "up", "default", "5", "5/8", "40/192", "300GiB/2TiB"]


@pytest.mark.slow
def test_agents_that_are_gone_are_listed_only_on_request(server: CannedServer, sokovan: Sokovan) -> None:
    fake_label = {"sokovan.fake": "yes"}
    agents = [
        AGENT,
        replace(AGENT, id="burnt", status="terminated"),
        replace(AGENT, id="away", status="lost"),
        replace(AGENT, id="r00n0", labels=fake_label),
        replace(AGENT, id="r00n1", status="lost", labels=fake_label),
        replace(AGENT, id="r00n2", status="lost", labels=fake_label, kernels=0),
    ]
    server.says("GET agents", {"items": agents, "next": None})
    assert sokovan("agent", "ls", "-o", "name")[1].split() == ["gpu2", "away", "r00n0", "r00n1"]
    for flag in ("--all", "-a"):
        assert sokovan("agent", "ls", "-o", "name", flag)[1].split() == [agent.id for agent in agents]


def test_an_agent_is_shown_with_its_labels(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET agents/gpu2", AGENT)
    shown = sokovan("agent", "show", "gpu2")[1]
    assert "labels        rack=r01" in shown
    assert "kernel ports  20000-29999" in shown
    assert json.loads(sokovan("agent", "show", "gpu2", "--json")[1])["kernels"] == 5


@pytest.mark.slow
def test_a_failing_agent_is_shown_with_reason_and_failures(server: CannedServer, sokovan: Sokovan) -> None:
    when, reason = "2030-01-01T00:00:00.000Z", "1 session in a row could not be started: creation-refused"
    failure = AgentFailureView(at=when, code="creation-refused", session="s1", user="eve", detail="disk full")
    failing = replace(AGENT, failing_since=when, failing_reason=reason, failed_starts=[failure])
    server.says("GET agents/gpu2", failing)
    server.says("GET agents", {"items": [failing], "next": None})
    assert sokovan("agent", "ls")[1].splitlines()[1].split()[1] == "FAILING"
    assert reason in sokovan("agent", "ls", "-o", "wide")[1]
    shown = sokovan("agent", "show", "gpu2", "--utc")[1]
    for text in (f"reason {reason}", "session s1 of eve: disk full", f"failing {when}", "failures 1"):
        assert text in " ".join(shown.split())


def test_an_agent_is_shown_with_the_faults_of_its_devices(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET agents/gpu2", replace(AGENT, device_faults={"GPU-1": "it is lost"}))
    assert "fault of GPU-1  it is lost" in sokovan("agent", "show", "gpu2")[1]


def test_a_history_is_printed(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET agents/gpu2/history", [])
    assert sokovan("agent", "history", "gpu2", "--json") == (0, "[]\n", "")


IMPACT: dict[str, Any] = {
    "agent": "gpu2", "action": "drain", "before": "alive", "after": "draining", "ends_kernels": False, "kernels": 5,
    "used": {"cpu": 40000}, "sessions": [
        {"id": "s-1", "name": "ddp", "user": "ada", "queue": "q", "status": "running", "kernels": 4, "size": 8},
    ],
    "left_out": 3, "scaling_group": "default", "group_agents": 2, "group_agents_after": 1,
    "group_free": {"cuda.device": 11}, "group_free_after": {"cuda.device": 8},
}  # fmt: skip


def test_a_drain_is_previewed_without_a_change(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("PATCH agents/gpu2", IMPACT)
    status, out, _err = sokovan("agent", "drain", "gpu2", "--dry-run")
    assert (status, out.splitlines()) == (
        0,
        [
            "gpu2  ALIVE, then DRAINING, 5 kernels continue: cpu 40",
            "scaling group default keeps 1 of 2 agents, free: cuda.device 8",
            "  ddp of ada: 4 of 8 kernels",
            "  ... and 3 more sessions",
        ],
    )
    assert server.asked[0][1] == {"action": "drain"}
    assert all("dry_run=true" in line for line in server.lines)


def test_declaring_an_agent_gone_is_previewed_without_a_question(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("PATCH agents/gpu2", {**IMPACT, "action": "declare-gone", "after": "terminated", "ends_kernels": True})
    status, out, _err = sokovan("agent", "declare-gone", "gpu2", "--dry-run")
    assert (status, out.splitlines()[0]) == (0, "gpu2  ALIVE, then TERMINATED, 5 kernels end: cpu 40")
    assert "dry_run=true" in server.lines[0]


def test_an_agent_is_drained_and_undrained(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("PATCH agents/gpu2", AGENT)
    assert sokovan("agent", "drain", "gpu2", "--reason", "dimm") == (0, "", "gpu2  ALIVE  5 kernels still running\n")
    assert sokovan("agent", "undrain", "gpu2")[0] == 0
    assert [body for _, body in server.asked] == [{"action": "drain", "reason": "dimm"}, {"action": "undrain"}]


def test_an_agent_is_declared_gone_only_after_a_confirmation(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("PATCH agents/gpu2", AGENT)
    assert sokovan("agent", "declare-gone", "gpu2")[0] == 2
    assert server.asked == []
    assert sokovan("agent", "declare-gone", "gpu2", "--yes")[0] == 0
    assert server.asked[0][1] == {"action": "declare-gone"}


def test_labels_are_set_and_removed(server: CannedServer, sokovan: Sokovan) -> None:
    change = {"applied": True, "hypernodes": 1, "agents": 1, "unplaced": 0, "violation_count": 0, "violations": []}
    server.says("PATCH agents/gpu2/labels", {"agent": AGENT, "topology": change})
    status, _, told = sokovan("agent", "label", "gpu2", "rack=r01", "zone=a=b", "old-")
    assert (status, told.splitlines()[0]) == (0, "gpu2  rack=r01")
    assert server.asked[0][1] == {"set": {"rack": "r01", "zone": "a=b"}, "remove": ["old"]}
    for bad in ((), ("rack",)):
        assert sokovan("agent", "label", "gpu2", *bad)[0] == 2


def test_labels_of_operators_are_shown_apart(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET agents/gpu2", replace(AGENT, operator_labels={"zone": "z1"}))
    assert "set by operators  zone=z1" in sokovan("agent", "show", "gpu2")[1]


def test_taints_are_set_removed_and_shown(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("PATCH agents/gpu2/taints", replace(AGENT, taints=["dedicated=ml"]))
    status, _, told = sokovan("agent", "taint", "gpu2", "dedicated=ml", "odd=a-", "spot-")
    assert (status, told) == (0, "gpu2  taints: dedicated=ml\n")
    assert server.asked[0][1] == {"set": ["dedicated=ml", "odd=a-"], "remove": ["spot"]}
    assert sokovan("agent", "taint", "gpu2")[0] == 2
    server.says("GET agents/gpu2", replace(AGENT, taints=["dedicated=ml", "spot"]))
    shown = [line.split() for line in sokovan("agent", "show", "gpu2")[1].splitlines()]
    assert shown.count(["taints", "dedicated=ml", "spot"]) == 1


def test_an_agent_that_waits_for_an_approval_is_shown_so(server: CannedServer, sokovan: Sokovan) -> None:
    claiming = replace(AGENT, unapproved=["slot cpu=4", "label rack=r9"])
    server.says("GET agents/gpu2", claiming)
    server.says("GET agents", {"items": [claiming], "next": None})
    assert sokovan("agent", "ls")[1].splitlines()[1].split()[1] == "UNAPPROVED"
    assert "not approved  slot cpu=4, label rack=r9" in sokovan("agent", "show", "gpu2")[1]


def test_the_claims_that_were_shown_are_approved(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET agents/gpu2", replace(AGENT, unapproved=["label rack=r9"]))
    server.says("POST agents/gpu2/approval", AGENT)
    status, _, said = sokovan("agent", "approve", "gpu2", "--yes")
    assert (status, said) == (0, "gpu2  ALIVE  approved: label rack=r9\n")
    assert server.asked[-1][1] == {"claims": ["label rack=r9"]}


def test_join_tokens_are_listed_used_ones_on_request(server: CannedServer, sokovan: Sokovan) -> None:
    line = JoinTokenLine(
        name="join-1",
        scaling_group="gpus",
        slots={"cpu": 4000},
        labels={"rack": "r1"},
        created_by="root",
        expires_at="2030-01-01T00:00:00.000Z",
    )
    server.says("GET join-tokens", {"items": [line, replace(line, name="join-2", used_by="gpu2")], "next": None})
    out = sokovan("agent", "tokens")[1].splitlines()
    assert [row.split()[:4] for row in out[1:]] == [["join-1", "gpus", "cpu", "4"]]
    assert "rack=r1" in out[1]
    assert sokovan("agent", "tokens", "--all", "-o", "name")[1].split() == ["join-1", "join-2"]
    server.says("DELETE join-tokens/join-1", None)
    assert sokovan("agent", "revoke-token", "join-1", "--yes")[2] == "join token join-1 revoked\n"


def test_a_token_with_labels_prints_a_command_that_claims_them(server: CannedServer, sokovan: Sokovan) -> None:
    made = JoinTokenView(
        token="join-1.Xy",  # noqa: S106  # it opens nothing
        url="wss://h:1",
        authority="sha256:0",
        scaling_group="default",
        expires_at="2030-01-01T00:00:00.000Z",
        labels={"rack": "r1", "note": "a b"},
    )
    server.says("POST join-tokens", made)
    status, out, _ = sokovan("agent", "token", "--label", "rack=r1", "--label", "note=a b", "--slots", "cpu=2")
    assert (status, server.asked[0][1]) == (0, {"labels": {"rack": "r1", "note": "a b"}, "slots": {"cpu": "2"}})
    assert out.strip().endswith("--ca sha256:0 --label 'note=a b' --label rack=r1")
    for wrong in ("rack", "=r1"):
        status, _, said = sokovan("agent", "token", "--label", wrong)
        assert (status, "is not NAME=VALUE" in said) == (2, True), said
