"""Explainer: agents that cannot run the image of a kernel."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.domain.cluster.agent import RUNTIME_LABEL
from sokovan.domain.ids import SessionId
from sokovan.scheduling.snapshot import SystemSnapshot
from sokovan.scheduling.trace import Advice, Verdict
from tests.unit.scheduling.engine.builders import agent, kernel, planned, session, snapshot


def verdict_of(given: SystemSnapshot) -> Verdict:
    return planned(given).trace[SessionId("s")]


def code_and_summary(verdict: Verdict) -> tuple[str, str]:
    return verdict.code, verdict.summary


@pytest.mark.parametrize(
    ("runtime", "asked", "kind"),
    [
        ("process", {"image": "python:3.12"}, "containers"),
        ("docker", {"image": "host"}, "processes of its machine (image host or venv:NAME)"),
        ("fake", {"image": "torch", "serves": True}, "containers that serve requests; fake agents cannot"),
    ],
)
def test_a_runtime_that_no_agent_has_is_named(runtime: str, asked: dict[str, Any], kind: str) -> None:
    machines = [agent(name, "cpu=1", labels={RUNTIME_LABEL: runtime}) for name in ("a", "b")]
    verdict = verdict_of(snapshot(machines, session("s", kernel("k", "cpu=1", **asked))))
    assert code_and_summary(verdict) == ("NO_RUNTIME_MATCH", f"none of 2 agents can run {kind}")
    assert verdict.advice is Advice.CHANGE


def test_labels_are_compared_among_agents_of_the_runtime_only() -> None:
    machines = [
        agent("a", "cpu=1", labels={RUNTIME_LABEL: "docker"}),
        agent("b", "cpu=1", labels={RUNTIME_LABEL: "process", "zone": "east"}),
    ]
    wanted = kernel("k", "cpu=1", image="torch", require={"zone": "east"})
    verdict = verdict_of(snapshot(machines, session("s", wanted)))
    assert code_and_summary(verdict) == ("NO_LABEL_MATCH", "none of 1 agents has the labels zone=east")
    assert verdict.funnel is not None
    assert verdict.funnel.sentence().endswith("(1 of another runtime)")
