"""`sokovan plan`: dry runs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sokovan.cli.commands.sessions.plan import plan_lines
from sokovan.wire.api.explanations import CheckView, PlacementView, PlanView
from tests.unit.cli.canned_server import CannedServer, Sokovan


def planned(**changes: Any) -> PlanView:
    """A plan."""
    plain: dict[str, Any] = {
        "would_start": "now",
        "code": "PLACED",
        "summary": "placed on a1",
        "verdict": "NOTHING",
        "slots": {"cpu": 8000, "cuda.device": 1},
        "size": 1,
        "scaling_group": "default",
        "queue": "research",
        "image": "host",
        "placements": [PlacementView(kernel=0, agent="a1")],
    }
    return PlanView(**{**plain, **changes})


def test_a_plan_says_when_and_where() -> None:
    assert plan_lines(planned()) == [
        "1 kernel, cpu 8, cuda.device 1 in total  queue research  scaling group default  image host",
        "  would start now: placed on a1 [PLACED]",
        "  kernel 0 on a1",
    ]


def test_long_placements_are_cut_and_failed_checks_are_shown() -> None:
    places = [PlacementView(kernel=index, agent=f"a{index}") for index in range(20)]
    checks = [CheckView(name="quota", result="ok"), CheckView(name="room", result="short", detail="no agent")]
    lines = plan_lines(planned(size=20, placements=places, checks=checks, funnel={"all": 3, "alive": 2}))
    assert lines[0].startswith("20 kernels,")
    assert lines[-4:] == [
        "  ... and 4 more",
        "  agents: all 3 → alive 2",
        "  CHECK  RESULT  DETAIL",
        "  room   short   no agent",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("when", "status"), [("now", 0), ("waits", 0), ("never", 6)])
def test_only_an_unschedulable_session_is_a_failure(
    server: CannedServer, sokovan: Sokovan, when: str, status: int
) -> None:
    server.says("POST sessions/plan", planned(would_start=when))
    assert sokovan("plan", "--size", "2", "--", "x")[0] == status
    assert server.body("POST sessions/plan") == {"command": ["x"], "size": 2}


@pytest.mark.slow
def test_json_prints_the_object(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("POST sessions/plan", planned())
    assert json.loads(sokovan("plan", "--json", "--", "x")[1])["code"] == "PLACED"
