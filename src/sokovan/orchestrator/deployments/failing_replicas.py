"""Replicas that pass their checks and fail their answers.

Proxies say which ones fail again and again; here it is decided whether they are replaced. One
bad proxy, or a client whose requests fail anywhere, must not end replicas that are well: all
proxies that use a replica must agree, most others of its revision must answer, and few are
replaced, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sokovan.domain.lifecycle.replica import COUNTED, ReplicaStatus
from sokovan.domain.serving.records import EndpointObservation, ProxyRecord, ReplicaRecord
from sokovan.domain.serving.replica import is_crash_loop, restart_due_ms

ANSWERS_FAIL = "answers-fail"
# A proxy that knows fewer answers of a replica has no opinion on it.
ANSWERS_MIN = 10
# A replica answers well if no more than one in so many of its answers failed.
ANSWERS_PER_FAILURE = 10


class FailingReplica(NamedTuple):
    """A replica whose answers fail; `kept` is why it is not replaced now.

    It is empty for one that is.
    """

    replica: ReplicaRecord
    detail: str
    kept: str = ""


def failing_replicas(
    replicas: Sequence[ReplicaRecord], proxies: Sequence[ProxyRecord], *, failed_at_ms: Sequence[int], now_ms: int
) -> list[FailingReplica]:
    """The replicas of one revision whose answers fail; one is replaced at most.

    `failed_at_ms` are the times at which replicas of the revision failed lately.
    """
    found: list[FailingReplica] = []
    wait = _wait(replicas, failed_at_ms, now_ms)
    for replica in replicas:
        failing = [one for one in _opinions(replica, proxies) if one.failing]
        if replica.status is not ReplicaStatus.ACTIVE or not failing:
            continue
        kept = _doubt(replica, replicas, proxies) or wait
        found.append(FailingReplica(replica, _detail(failing), kept))
        if not kept:
            wait = "another replica is being replaced"
    return found


def _detail(failing: Sequence[EndpointObservation]) -> str:
    worst = max(failing, key=lambda one: one.failures)
    said = f": {worst.error}" if worst.error else ""
    return f"{worst.failures} of its last {worst.answers} answers failed{said}"


def _wait(replicas: Iterable[ReplicaRecord], failed_at_ms: Sequence[int], now_ms: int) -> str:
    """Why no replica of a revision is replaced now."""
    for one in replicas:
        if one.status in COUNTED and one.status is not ReplicaStatus.ACTIVE:
            return "another replica does not serve yet"
        if one.status is ReplicaStatus.DRAINING and one.reason_code == ANSWERS_FAIL:
            return "another replica is being replaced"
    if is_crash_loop([*failed_at_ms, now_ms], now_ms):
        return f"{len(failed_at_ms)} replicas of its revision failed within 10 minutes"
    return "another replica failed a moment ago" if now_ms < restart_due_ms(failed_at_ms) else ""


def _doubt(replica: ReplicaRecord, replicas: Sequence[ReplicaRecord], proxies: Sequence[ProxyRecord]) -> str:
    """Why the fault may not be that of the replica."""
    others = [one for one in replicas if one.status is ReplicaStatus.ACTIVE and one is not replica]
    used = [one for one in proxies if any(_opinions(each, [one]) for each in [replica, *others])]
    opinions = _opinions(replica, used)
    if not all(one.failing for one in opinions) or 2 * len(opinions) <= len(used):
        return f"{sum(one.failing for one in opinions)} of {len(used)} proxies find so"
    for proxy in used:
        known = [one for each in others for one in _opinions(each, [proxy])]
        well = sum(ANSWERS_PER_FAILURE * one.failures <= one.answers for one in known)
        if _opinions(replica, [proxy]) and (not well or 2 * well < len(known)):
            return "no other replica is known to answer" if not well else "most other replicas fail too"
    return ""


def _opinions(replica: ReplicaRecord, proxies: Iterable[ProxyRecord]) -> list[EndpointObservation]:
    """The reports on a replica of the proxies that know enough answers of it."""
    name = "" if replica.endpoint is None else replica.endpoint.endpoint_id
    reports = (one.endpoints.get(name) for one in proxies)
    return [one for one in reports if one is not None and one.answers >= ANSWERS_MIN]
