"""The HyperNodes that a session and its kernel groups may use, and their order."""

from __future__ import annotations

from collections.abc import Sequence

from sokovan.scheduling.extensions import DomainTrial, SchedulingPlugin
from sokovan.scheduling.snapshot import SessionWorkload


class RackPlugin(SchedulingPlugin):
    """Reserves HyperNodes for groups: `r7.lab` is for sessions of the group `lab`.

    A name without a dot, such as `r7`, is shared; so is the virtual root.
    """

    name = "rack"

    def domains_for_session(self, session: SessionWorkload, domains: Sequence[str]) -> Sequence[str]:
        """The shared racks, and those of the session's own group."""
        return [name for name in domains if _group_of(name) in {"", session.owner.group}]

    def domains_for_group(self, session: SessionWorkload, group: str, domains: Sequence[str]) -> Sequence[str]:
        """Racks whose name ends with the kernel group, such as `r7-storage`, if there are any."""
        del session
        named = [name for name in domains if name.endswith(f"-{group}")]
        return named or domains

    def domain_order(self, session: SessionWorkload, domains: Sequence[str]) -> Sequence[int]:
        """Racks of the session's own group before shared ones; a score per HyperNode, highest first."""
        return [int(_group_of(name) == session.owner.group) for name in domains]

    def trial_order(self, session: SessionWorkload, trials: Sequence[DomainTrial]) -> Sequence[int]:
        """Own racks first, then the rack in which the session takes the fewest agents."""
        own = self.domain_order(session, [trial.domain for trial in trials])
        return [
            score * 1_000_000 - len({agent for _, agent in trial.placed})
            for score, trial in zip(own, trials, strict=True)
        ]


def _group_of(name: str) -> str:
    return name.partition(".")[2]
