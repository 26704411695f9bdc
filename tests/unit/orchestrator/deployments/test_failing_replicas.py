"""A replica is replaced for its answers only if the fault is surely its own."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sokovan.domain.ids import AgentId, DeploymentId, KernelId, ReplicaId
from sokovan.domain.lifecycle.replica import ReplicaPlace, ReplicaStatus
from sokovan.domain.serving.records import EndpointObservation, ProxyRecord, ReplicaRecord
from sokovan.domain.serving.replica import Endpoint
from sokovan.orchestrator.deployments.failing_replicas import ANSWERS_FAIL, FailingReplica, failing_replicas

S = ReplicaStatus
BAD = EndpointObservation(healthy=True, answers=20, failures=16, failing=True, error="reset")
POOR = EndpointObservation(healthy=True, answers=20, failures=10)
GOOD = EndpointObservation(healthy=True, answers=20, failures=2)
NEW = EndpointObservation(healthy=True, answers=9)


def replicas(*statuses: ReplicaStatus, code: str = "") -> list[ReplicaRecord]:
    return [
        ReplicaRecord(
            replica_id=ReplicaId(f"r{number}"),
            place=ReplicaPlace(DeploymentId("d"), 1, number, 1),
            status=status,
            version=1,
            secret="",
            since_ms=0,
            endpoint=Endpoint(KernelId(f"k{number}"), 1, AgentId("a"), 8000),
            reason_code=code,
        )
        for number, status in enumerate(statuses)
    ]


def proxy(*seen: EndpointObservation) -> ProxyRecord:
    endpoints = {f"k{number}.1": one for number, one in enumerate(seen)}
    return ProxyRecord(proxy_id="p", incarnation=1, epoch="e", version=1, reported_ms=0, endpoints=endpoints)


def found(
    proxies: Sequence[ProxyRecord], *statuses: ReplicaStatus, failed: Sequence[int] = (), code: str = ""
) -> list[FailingReplica]:
    return failing_replicas(replicas(*statuses, code=code), proxies, failed_at_ms=failed, now_ms=1_000_000)


def kept(*proxies: ProxyRecord, of: int = 3) -> list[str]:
    return [one.kept for one in found(proxies, *[S.ACTIVE] * of)]


def test_one_that_fails_while_the_others_answer_is_replaced() -> None:
    [only] = found([proxy(BAD, GOOD)], S.ACTIVE, S.ACTIVE)
    assert (only.replica.place.ordinal, only.kept) == (0, "")
    assert only.detail == "16 of its last 20 answers failed: reset"
    assert not found([proxy(POOR, GOOD)], S.ACTIVE, S.ACTIVE)


@pytest.mark.parametrize(
    ("proxies", "reasons"),
    [
        ([proxy(BAD)], ["no other replica is known to answer"]),
        ([proxy(BAD, NEW, NEW)], ["no other replica is known to answer"]),
        ([proxy(BAD, POOR, POOR)], ["no other replica is known to answer"]),
        ([proxy(BAD, GOOD, POOR)], [""]),
        ([proxy(BAD, BAD, GOOD)], ["", "another replica is being replaced"]),
        ([proxy(BAD, BAD, BAD)], ["no other replica is known to answer"] * 3),
        ([proxy(BAD, GOOD, GOOD), proxy(GOOD, GOOD, GOOD)], ["1 of 2 proxies find so"]),
        ([proxy(BAD, GOOD, GOOD), proxy(NEW, GOOD, GOOD)], ["1 of 2 proxies find so"]),
        ([proxy(BAD, GOOD, GOOD), proxy(NEW, NEW, NEW)], [""]),
        ([proxy(BAD, GOOD, GOOD), proxy(BAD, GOOD, GOOD), proxy(NEW, GOOD, GOOD)], [""]),
        ([proxy(BAD, GOOD, GOOD), proxy(BAD, BAD, BAD)],
         ["no other replica is known to answer", "1 of 2 proxies find so", "1 of 2 proxies find so"]),
    ],
)  # fmt: skip
def test_it_is_kept_if_the_fault_may_be_that_of_a_proxy_or_a_client(
    proxies: list[ProxyRecord], reasons: list[str]
) -> None:
    assert kept(*proxies) == reasons


def test_most_others_must_answer() -> None:
    assert kept(proxy(BAD, GOOD, POOR, POOR), of=4) == ["most other replicas fail too"]


@pytest.mark.parametrize("status", [S.PENDING, S.STARTING, S.WARMING, S.UNHEALTHY])
def test_none_is_replaced_while_another_one_does_not_serve(status: ReplicaStatus) -> None:
    [only] = found([proxy(BAD, GOOD, GOOD)], S.ACTIVE, S.ACTIVE, status)
    assert only.kept == "another replica does not serve yet"


def test_one_at_a_time_is_replaced_and_a_drain_for_other_reasons_does_not_count() -> None:
    seen = [proxy(BAD, GOOD, GOOD)]
    [only] = found(seen, S.ACTIVE, S.ACTIVE, S.DRAINING, code=ANSWERS_FAIL)
    assert only.kept == "another replica is being replaced"
    [only] = found(seen, S.ACTIVE, S.ACTIVE, S.DRAINING)
    assert only.kept == ""


@pytest.mark.parametrize(
    ("failed", "reason"),
    [
        ([], ""),
        ([995_000], "another replica failed a moment ago"),
        ([985_000], ""),
        ([900_000, 985_000], "2 replicas of its revision failed within 10 minutes"),
    ],
)
def test_replacements_follow_the_delays_and_the_bound_of_failed_replicas(failed: list[int], reason: str) -> None:
    [only] = found([proxy(BAD, GOOD)], S.ACTIVE, S.ACTIVE, failed=failed)
    assert only.kept == reason


def test_a_replica_that_does_not_serve_is_not_judged() -> None:
    assert not found([proxy(BAD, GOOD)], S.DRAINING, S.ACTIVE)
