"""Tables of deployments."""

from __future__ import annotations

from dataclasses import replace

from sokovan.cli.commands.serving.deployment_tables import deployment_facts, progress, replica_table, rollout_text
from sokovan.wire.api.deployments import LatencyView, RolloutView
from tests.unit.sdk.deployment_views import DEPLOYMENT, NOON

ROLLOUT = RolloutView(
    id="o-1",
    revision_from=3,
    revision_to=4,
    strategy="canary",
    status="rolling_back",
    started_at=NOON,
    since=NOON,
    weight_new=5,
    reason="new replicas failed repeatedly",
)


def test_a_rollout_says_its_share_and_why_it_ended() -> None:
    assert rollout_text(ROLLOUT) == "canary rolling_back, 5 % of requests: new replicas failed repeatedly"
    assert progress(replace(DEPLOYMENT, rollout=ROLLOUT)).endswith("1/2 replicas  revision 3 → 4 rolling_back")


def test_the_facts_name_the_bounds_of_replicas() -> None:
    scaled = replace(DEPLOYMENT, replicas_min=0, replicas_max=8)
    assert dict(deployment_facts(scaled))["replicas"] == "1 of 2 (0 to 8)"


def test_a_replica_without_an_agent_has_no_place() -> None:
    assert replica_table(DEPLOYMENT).splitlines()[2].split()[5:7] == ["s-2", "-"]


def test_latencies_are_said_for_half_of_the_answers_and_for_95_of_100() -> None:
    times = LatencyView(
        window_s=300,
        answers=52,
        first_p50_ms=120,
        first_p95_ms=340,
        whole_answers=50,
        whole_p50_ms=999,
        whole_p95_ms=3_400,
    )
    timed = replace(
        DEPLOYMENT, latency=times, replicas=[replace(DEPLOYMENT.replicas[0], latency=replace(times, whole_answers=0))]
    )
    said = "120ms/340ms to the first token, 999ms/3.4s to the end (p50/p95 of 52 in 5m)"
    assert dict(deployment_facts(timed))["latency"] == said
    assert dict(deployment_facts(DEPLOYMENT))["latency"] == "no answers in the last minutes"
    assert replica_table(timed).splitlines()[1].split()[-2:] == ["120ms/340ms", "-"]
