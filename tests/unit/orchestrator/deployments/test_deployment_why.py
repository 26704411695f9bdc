"""Why a deployment is not as desired."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sokovan.domain.ids import AgentId, DeploymentId, KernelId, ReplicaId
from sokovan.domain.lifecycle.deployment import DeploymentStatus
from sokovan.domain.lifecycle.replica import ReplicaPlace, ReplicaStatus
from sokovan.domain.lifecycle.rollout import RolloutStatus
from sokovan.domain.serving.deployment import DeploymentSpec
from sokovan.domain.serving.records import DeploymentRecord, EndpointObservation, ProxyRecord, ReplicaRecord
from sokovan.domain.serving.replica import Endpoint
from sokovan.orchestrator.deployments.deployment_why import explain_deployment
from tests.unit.orchestrator.deployments.test_rollout_traffic import ROLLOUT

D1 = DeploymentId("d-1")
RECORD = DeploymentRecord(
    spec=DeploymentSpec(deployment_id=D1, name="qwen", replicas_min=2, replicas_max=2),
    status=DeploymentStatus.RUNNING,
    version=1,
    replicas_desired=2,
    revision=1,
)


def replicas(*statuses: ReplicaStatus) -> list[ReplicaRecord]:
    return [
        ReplicaRecord(
            replica_id=ReplicaId(f"r-{n}"),
            place=ReplicaPlace(D1, 1, n, 1),
            status=status,
            version=1,
            secret="",
            since_ms=n,
            reason="exit 3" if status is ReplicaStatus.FAILED else "",
        )
        for n, status in enumerate(statuses)
    ]


S = ReplicaStatus


@pytest.mark.parametrize(
    ("statuses", "code", "waiting"),
    [
        ((S.ACTIVE, S.ACTIVE), "SERVING", 0),
        ((S.ACTIVE, S.STARTING), "REPLICAS_WAIT", 1),
        ((S.PENDING, S.WARMING, S.UNHEALTHY), "REPLICAS_WAIT", 3),
        ((), "REPLICAS_WAIT", 0),
        ((S.ACTIVE, S.FAILED), "REPLICAS_FAIL", 0),
        ((S.STARTING, S.FAILED), "REPLICAS_WAIT", 1),
    ],
)
def test_the_code_says_what_is_missing(statuses: tuple[ReplicaStatus, ...], code: str, waiting: int) -> None:
    found = explain_deployment(RECORD, replicas(*statuses))
    assert (found.code, len(found.waiting)) == (code, waiting)
    if code == "REPLICAS_WAIT":
        assert found.summary.endswith("; 1 is on its way" if waiting == 1 else f"; {waiting} are on their way")


def test_a_crash_loop_is_said_with_the_last_reason() -> None:
    found = explain_deployment(RECORD, replicas(S.FAILED, S.FAILED, S.FAILED))
    assert found.code == "CRASH_LOOP"
    assert found.summary == "0 of 2 replicas serve; the last one failed: exit 3; further attempts wait"


def test_one_that_may_have_no_replicas_says_that_no_request_starts_one() -> None:
    spec = replace(RECORD.spec, replicas_min=0, replicas_max=0)
    found = explain_deployment(replace(RECORD, spec=spec, replicas_desired=0), [])
    assert (found.code, "requests are refused" in found.summary) == ("IDLE", True)


def test_an_update_that_was_rolled_back_is_said_until_another_succeeds() -> None:
    back = replace(ROLLOUT, status=RolloutStatus.ROLLED_BACK, reason="there is no room")
    found = explain_deployment(RECORD, replicas(S.ACTIVE, S.ACTIVE), rollout=back)
    assert found.summary == "2 of 2 replicas serve; the update to revision 2 was rolled back: there is no room"
    done = replace(back, status=RolloutStatus.COMPLETED)
    assert explain_deployment(RECORD, replicas(S.ACTIVE, S.ACTIVE), rollout=done).summary == "2 of 2 replicas serve"


def test_nothing_desired_is_idle_and_a_deleted_one_says_so() -> None:
    assert explain_deployment(replace(RECORD, replicas_desired=0), []).code == "IDLE"
    assert explain_deployment(replace(RECORD, status=DeploymentStatus.DESTROYING), []).code == "DELETED"


def test_a_replica_that_is_not_ready_says_what_a_proxy_found() -> None:
    endpoint = Endpoint(KernelId("k1"), 1, AgentId("a1"), 8000)
    [warming, active] = replicas(S.WARMING, S.ACTIVE)
    found = {"k1.1": EndpointObservation(healthy=None, error="the probe got status 503")}
    proxy = ProxyRecord(proxy_id="p", incarnation=1, epoch="e", version=1, reported_ms=0, endpoints=found)
    [(_, said)] = explain_deployment(RECORD, [replace(warming, endpoint=endpoint), active], [proxy]).waiting
    assert said == "its engine runs and is not ready yet: the probe got status 503"


def test_a_replica_whose_answers_fail_is_named_with_what_becomes_of_it() -> None:
    bad, good = (
        EndpointObservation(healthy=True, answers=20, failures=n, failing=n > 0, error="reset" if n else "")
        for n in (20, 0)
    )
    some = [
        replace(one, endpoint=Endpoint(KernelId(f"k{n}"), 1, AgentId("a1"), 8000))
        for n, one in enumerate(replicas(S.ACTIVE, S.ACTIVE))
    ]
    proxy = ProxyRecord(
        proxy_id="p", incarnation=1, epoch="e", version=1, reported_ms=0, endpoints={"k0.1": bad, "k1.1": good}
    )
    found = explain_deployment(RECORD, some, [proxy], now_ms=1_000_000)
    assert (found.code, found.summary) == ("ANSWERS_FAIL", "2 of 2 replicas serve; the answers of 1 fail")
    assert [text for _, text in found.waiting] == ["20 of its last 20 answers failed: reset; it is being replaced"]

    failed = [replace(one, since_ms=990_000 + n) for n, one in enumerate(replicas(S.FAILED, S.FAILED))]
    [(_, text)] = explain_deployment(RECORD, [*some, *failed], [proxy], now_ms=1_000_000).waiting
    assert text.endswith("it is not replaced now: 2 replicas of its revision failed within 10 minutes")

    replaced = replace(some[0], status=S.UNHEALTHY, reason_code="answers-fail", reason="20 of 20 failed")
    [(_, text)] = explain_deployment(RECORD, [replaced, some[1]], [], now_ms=1_000_000).waiting
    assert text == "20 of 20 failed; it is being replaced"
