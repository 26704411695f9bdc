"""Tables of deployments."""

from __future__ import annotations

from dataclasses import replace

from sokovan.cli.commands.serving.deployment_tables import deployment_facts, progress, replica_table, rollout_text
from sokovan.wire.api.deployments import RolloutView
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
