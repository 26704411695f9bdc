"""Counts the requests of both revisions of a rollout since it began."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

from sokovan.domain.ids import DeploymentId
from sokovan.domain.serving.records import RevisionTraffic, RolloutRecord
from sokovan.domain.serving.rollout import SideTraffic
from sokovan.orchestrator.deployments.first_byte_times import percentile_ms, summed
from sokovan.orchestrator.deployments.serving_state import ServingState

# Counters by incarnation of a proxy, and by revision.
ProxyCounters: TypeAlias = Mapping[tuple[str, int], Mapping[str, RevisionTraffic]]

_NONE = RevisionTraffic()


class RolloutTraffic:
    """Remembers the counters at the begin of each rollout.

    They are kept in memory: a new leader compares from its own begin on. A proxy that started
    later has counted from zero.
    """

    def __init__(self) -> None:
        self._begun: dict[str, ProxyCounters] = {}

    def sides(self, state: ServingState, rollout: RolloutRecord) -> tuple[SideTraffic, SideTraffic]:
        """The requests of the old and of the new revision."""
        now = _counters(state, rollout.deployment_id)
        begun = self._begun.setdefault(rollout.rollout_id, now)
        return _side(begun, now, rollout.revision_from), _side(begun, now, rollout.revision_to)

    def keep(self, rollouts: Collection[str]) -> None:
        """Forget all other rollouts."""
        self._begun = {key: one for key, one in self._begun.items() if key in rollouts}


def _counters(state: ServingState, deployment_id: DeploymentId) -> ProxyCounters:
    return {
        (proxy.proxy_id, proxy.incarnation): proxy.routes[deployment_id].revisions
        for proxy in state.proxies
        if deployment_id in proxy.routes
    }


def _side(begun: ProxyCounters, now: ProxyCounters, revision: int) -> SideTraffic:
    served = failed = 0
    histograms: list[Sequence[int]] = []
    for proxy, revisions in now.items():
        one, before = (some.get(str(revision), _NONE) for some in (revisions, begun.get(proxy, {})))
        served += one.served - before.served
        failed += one.failed - before.failed
        histograms += [one.first_byte_counts, [-count for count in before.first_byte_counts]]
    counts = summed(histograms)
    return SideTraffic(served=served, failed=failed, timed=sum(counts), first_byte_p95_ms=percentile_ms(counts, 95))
