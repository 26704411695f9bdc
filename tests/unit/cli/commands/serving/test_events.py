"""`sokovan deployment events`."""

from __future__ import annotations

from dataclasses import replace

from sokovan.wire.api.deployments import DeploymentEventsView
from sokovan.wire.api.sessions import HistoryLine
from tests.unit.cli.canned_server import CannedServer, Sokovan
from tests.unit.sdk.deployment_views import NOON

LINE = HistoryLine(
    subject="deployment", sequence=1, before=None, after="pending", trigger="created", who="ada", code="created",
    detail="", at=NOON, last_at=NOON, times=1,
)  # fmt: skip
ENDED = replace(LINE, sequence=2, before="pending", after="terminated", code="ended")


def test_events_are_listed(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET deployments/qwen/events", DeploymentEventsView(deployment="d-1", lines=[LINE]))
    row = sokovan("deployment", "events", "qwen", "--limit", "5")[1].splitlines()[1].split()
    assert row[:2] == [NOON, "deployment"]
    assert server.lines == ["GET deployments/qwen/events?limit=5"]


def test_a_watch_prints_each_event_once_until_the_end(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET deployments/qwen/events", DeploymentEventsView(deployment="d-1", lines=[LINE]))
    both = DeploymentEventsView(deployment="d-1", lines=[LINE, ENDED])
    server.says("GET deployments/d-1/events", both)
    status, out, _ = sokovan("deployment", "events", "qwen", "--watch")
    assert (status, len(out.splitlines())) == (0, 2)
    assert sokovan("deployment", "events", "qwen", "--watch", "-o", "csv")[0] == 2
