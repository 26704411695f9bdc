"""Affinity in the reference scheduler: every kernel is compared with every other."""

from __future__ import annotations

from sokovan.domain.constraints.affinity import AGENT, AffinityTerm
from sokovan.domain.constraints.placement import PlacementConstraints
from sokovan.scheduling.snapshot import KernelWorkload, SystemSnapshot
from tests.reference.machines import ClusterState, Machine


class Affinity:
    """Which machines the affinity of sessions to each other allows."""

    def __init__(self, snapshot: SystemSnapshot, cluster: ClusterState) -> None:
        self._snapshot, self._cluster = snapshot, cluster

    def concerned(self, kernel: KernelWorkload) -> bool:
        """Whether a term of its own, or of another session of the project, could apply."""
        own = kernel.constraints
        if own is None:
            return False
        all_kernels = [other for session in self._snapshot.sessions for other in session.kernels]
        terms = [term for other in all_kernels for term in _anti(other, own)]
        return bool(own.affinity or own.anti_affinity or any(term.matches(dict(own.labels)) for term in terms))

    def allows(self, machine: Machine, kernel: KernelWorkload) -> bool:
        """Whether the kernel may join the kernels that are present now."""
        own = kernel.constraints
        if own is None:
            return True
        if any(self._tier(term) is None for term in (*own.affinity, *own.anti_affinity)):
            return False
        return (
            all(self._near(machine, own, term) for term in own.affinity)
            and not any(self._beside(machine, term, named) for term, named in self._refused(own))
        )  # fmt: skip

    def _near(self, machine: Machine, own: PlacementConstraints, term: AffinityTerm) -> bool:
        named = self._named(own, term)
        if not named and term.matches(dict(own.labels)):
            return True
        return self._beside(machine, term, named)

    def _refused(self, own: PlacementConstraints) -> list[tuple[AffinityTerm, list[Machine]]]:
        """Terms that keep the kernel apart, its own and those of others, with the machines they are about."""
        refused = [(term, self._named(own, term)) for term in own.anti_affinity]
        for machine in self._cluster.machines.values():
            for other in machine.present:
                if self._known(other):
                    mine = [term for term in _anti(other, own) if term.matches(dict(own.labels))]
                    refused.extend((term, [machine]) for term in mine)
        return refused

    def _known(self, kernel: KernelWorkload) -> bool:
        """Whether all terms of a session can be evaluated; otherwise none of them holds."""
        own = kernel.constraints
        terms = (*own.affinity, *own.anti_affinity) if own is not None else ()
        return all(self._tier(term) is not None for term in terms)

    def _named(self, own: PlacementConstraints, term: AffinityTerm) -> list[Machine]:
        """The machines with a kernel of the project that the term names."""
        return [
            machine
            for machine in self._cluster.machines.values()
            if any(
                other.constraints is not None
                and other.constraints.project == own.project
                and term.matches(dict(other.constraints.labels))
                for other in machine.present
            )
        ]

    def _beside(self, machine: Machine, term: AffinityTerm, others: list[Machine]) -> bool:
        return any(self._domain(machine, term) == self._domain(other, term) for other in others)

    def _domain(self, machine: Machine, term: AffinityTerm) -> str:
        """The highest HyperNode above a machine that the tier of a term allows, or the machine itself."""
        tree, tier, name = self._snapshot.tree, self._tier(term) or 0, str(machine.info.agent_id)
        return [name, *(above for above in tree.ancestors(name) if tree.tier(above) <= tier)][-1]

    def _tier(self, term: AffinityTerm) -> int | None:
        """The tier of a term, 0 for the agent itself; None if there is no such tier."""
        tree = self._snapshot.tree
        if term.within == AGENT:
            return 0
        if isinstance(term.within, str):
            return tree.tier_named(term.within)
        return term.within if term.within <= tree.root_tier else None


def _anti(kernel: KernelWorkload, own: PlacementConstraints) -> tuple[AffinityTerm, ...]:
    """The terms of another kernel that keep others of its project apart."""
    other = kernel.constraints
    return other.anti_affinity if other is not None and other.project == own.project else ()
