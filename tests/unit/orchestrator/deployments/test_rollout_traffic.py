"""The requests of both revisions since a rollout began."""

from __future__ import annotations

from sokovan.domain.ids import DeploymentId
from sokovan.domain.lifecycle.rollout import RolloutStatus
from sokovan.domain.serving.records import ProxyRecord, RevisionTraffic, RolloutRecord, RouteDemand
from sokovan.domain.serving.rollout import RolloutStrategy
from sokovan.orchestrator.deployments.rollout_traffic import RolloutTraffic
from sokovan.orchestrator.deployments.serving_state import ServingState

D1 = DeploymentId("d-1")
ROLLOUT = RolloutRecord(
    rollout_id="ro-1",
    deployment_id=D1,
    revision_from=1,
    revision_to=2,
    strategy=RolloutStrategy.CANARY,
    status=RolloutStatus.PROGRESSING,
    version=1,
    surge=1,
    unavailable=0,
)


def state(*proxies: tuple[str, int, dict[str, RevisionTraffic]]) -> ServingState:
    return ServingState(
        now_ms=0,
        proxies=[
            ProxyRecord(
                proxy_id=name,
                incarnation=incarnation,
                epoch="e",
                version=1,
                reported_ms=0,
                routes={D1: RouteDemand(revisions=revisions)},
            )
            for name, incarnation, revisions in proxies
        ],
    )


def test_requests_before_the_rollout_do_not_count() -> None:
    traffic = RolloutTraffic()
    traffic.sides(state(("p", 1, {"1": RevisionTraffic(served=100, failed=9, first_byte_counts=(7,))})), ROLLOUT)
    old, new = traffic.sides(
        state(
            (
                "p",
                1,
                {"1": RevisionTraffic(served=110, failed=9, first_byte_counts=(9,)), "2": RevisionTraffic(failed=3)},
            )
        ),
        ROLLOUT,
    )
    assert (old.served, old.failed, old.timed) == (10, 0, 2)
    assert (new.served, new.failed) == (0, 3)


def test_a_proxy_that_started_later_counts_from_zero() -> None:
    traffic = RolloutTraffic()
    traffic.sides(state(("p", 1, {"1": RevisionTraffic(served=100)})), ROLLOUT)
    later = state(("p", 2, {"1": RevisionTraffic(served=4)}), ("q", 1, {"1": RevisionTraffic(served=3)}))
    assert traffic.sides(later, ROLLOUT)[0].served == 7
    traffic.keep(())
    assert traffic.sides(later, ROLLOUT)[0].served == 0
