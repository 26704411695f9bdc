"""AffinityIndex: where the sessions run that affinity terms name.

Takes the sessions of a snapshot and the workspace. Gives an AffinityRule for each session
that has a term or is named by one; all others have none and cost nothing. A rule says which
agents are allowed now, and counts every kernel placed or rolled back. Counts are kept
only for agents with such kernels, and a term costs one pass over the agents when a kernel
that it names has moved.

Near: a named kernel is in the domain (the agent, or its HyperNode of the tier). If none runs
at all and the session is named by its own term, it is the first and may go anywhere. Apart:
no named kernel is in the domain. Apart holds both ways: a running session keeps away the ones
that its term names, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from sokovan.domain.constraints.affinity import AGENT, AffinityTerm
from sokovan.domain.constraints.placement import PlacementConstraints, Project
from sokovan.scheduling.engine.workspace import Flags, Ints, Workspace
from sokovan.scheduling.snapshot import SessionWorkload

Labels = tuple[tuple[str, str], ...]
# Distinct label sets that the terms of one project name and a cycle evaluates; sessions with more of them wait.
TERMS_PER_PROJECT_MAX = 256


class KernelCounts:
    """How many kernels of some kind are on each agent, and the domains that have any."""

    def __init__(self) -> None:
        self._by_agent: dict[int, int] = {}
        self._masks: dict[int, Flags] = {}

    def __bool__(self) -> bool:
        return bool(self._by_agent)

    def add(self, agent: int, count: int) -> None:
        """Count kernels on an agent; a negative count takes them back."""
        left = self._by_agent.get(agent, 0) + count
        if left:
            self._by_agent[agent] = left
        else:
            self._by_agent.pop(agent, None)
        self._masks.clear()

    def present(self, domains: Ints) -> Flags:
        """The agents in whose domain there is such a kernel.

        `domains` has the number of each agent's domain.
        """
        mask = self._masks.get(id(domains))
        if mask is None:
            rows = np.fromiter(self._by_agent, np.int64, len(self._by_agent))
            found = np.zeros(int(domains.max(initial=0)) + 1, bool)
            found[domains[rows]] = True
            mask = self._masks[id(domains)] = found[domains]
        return mask


CountsInDomains = tuple[KernelCounts, Ints]


class AffinityRule:
    """The affinity of equal sessions: the agents that they may use at this moment.

    `near` and `apart` count the kernels that its terms name, `kept_off` the kernels of
    sessions whose terms name it; `counted` counts its own kernels. With a `problem` its terms
    cannot be evaluated, and no agent is allowed.
    """

    def __init__(
        self,
        near: Sequence[CountsInDomains],
        apart: Sequence[CountsInDomains],
        kept_off: Sequence[CountsInDomains],
        counted: Sequence[KernelCounts],
        *,
        agents: int,
        problem: str = "",
    ) -> None:
        self.problem, self._agents = problem, agents
        self._near, self._refused, self._counted = near, (*apart, *kept_off), counted
        own = {id(counts) for counts in counted}
        self._may_be_first = [id(counts) in own for counts, _ in near]
        # A placed kernel changes which agents are allowed for the next one of the session.
        self.changes_itself = any(self._may_be_first) or any(id(counts) in own for counts, _ in self._refused)

    def allowed(self, agents: Ints | slice = slice(None)) -> Flags | None:
        """The agents that the terms allow now; None for all of them."""
        if self.problem:
            return np.zeros(self._agents, bool)[agents]
        masks = [
            counts.present(domains)[agents]
            for (counts, domains), first in zip(self._near, self._may_be_first, strict=True)
            if counts or not first
        ]
        masks += [~counts.present(domains)[agents] for counts, domains in self._refused if counts]
        return np.logical_and.reduce(masks) if masks else None

    def count(self, agent: int, kernels: int) -> None:
        """Record kernels placed on an agent; a negative number takes them back."""
        for counts in self._counted:
            counts.add(agent, kernels)


class _Terms:
    """The distinct terms of one project, with the kernels they name and the kernels that have them."""

    def __init__(self, domains: _Domains) -> None:
        self._domains = domains
        self._named: dict[Labels, KernelCounts] = {}
        self._holders: dict[AffinityTerm, KernelCounts] = {}
        self._by_pair: dict[tuple[str, str], list[Labels]] = {}
        self._anti_by_labels: dict[Labels, list[AffinityTerm]] = {}

    def add(self, constraints: PlacementConstraints) -> None:
        """Add the terms of a session, as far as there is room for more."""
        for term in (*constraints.affinity, *constraints.anti_affinity):
            if term.labels not in self._named and len(self._named) < TERMS_PER_PROJECT_MAX:
                self._named[term.labels] = KernelCounts()
                self._by_pair.setdefault(term.labels[0], []).append(term.labels)
        for term in constraints.anti_affinity:
            if term.labels in self._named and term not in self._holders and not self._domains.problem(term):
                self._holders[term] = KernelCounts()
                self._anti_by_labels.setdefault(term.labels, []).append(term)

    def _problem(self, constraints: PlacementConstraints) -> str:
        """Why the terms of a session cannot be evaluated; empty if they can."""
        for term in (*constraints.affinity, *constraints.anti_affinity):
            if term.labels not in self._named:
                return f"the group has more than {TERMS_PER_PROJECT_MAX} distinct affinity terms"
            problem = self._domains.problem(term)
            if problem:
                return problem
        return ""

    def rule(self, constraints: PlacementConstraints) -> AffinityRule | None:
        """The rule of a session; None if no term is its own or names it."""
        pairs = set(constraints.labels)
        naming = [
            labels for pair in constraints.labels for labels in self._by_pair.get(pair, ()) if pairs.issuperset(labels)
        ]
        if not (naming or constraints.affinity or constraints.anti_affinity):
            return None
        problem = self._problem(constraints)
        near, apart = ((), ()) if problem else (constraints.affinity, constraints.anti_affinity)
        return AffinityRule(
            near=[(self._named[term.labels], self._domains.of(term)) for term in near],
            apart=[(self._named[term.labels], self._domains.of(term)) for term in apart],
            kept_off=[
                (self._holders[term], self._domains.of(term))
                for labels in naming
                for term in self._anti_by_labels.get(labels, ())
            ],
            counted=[*(self._named[labels] for labels in naming), *(self._holders[term] for term in apart)],
            agents=self._domains.agents,
            problem=problem,
        )


class AffinityIndex:
    """The rules of all sessions of a cycle."""

    def __init__(self, sessions: Sequence[SessionWorkload], workspace: Workspace) -> None:
        self._projects: dict[Project, _Terms] = {}
        self._rules: dict[PlacementConstraints, AffinityRule | None] = {}
        named = [session for session in sessions if _has_terms(session)]
        if named:
            self._add_terms(named, _Domains(workspace))
            self._count_running(sessions, workspace)

    def rule(self, constraints: PlacementConstraints) -> AffinityRule | None:
        """The rule of a session; None if no term concerns it."""
        terms = self._projects.get(constraints.project)
        if terms is None:
            return None
        if constraints not in self._rules:
            self._rules[constraints] = terms.rule(constraints)
        return self._rules[constraints]

    def _add_terms(self, sessions: Iterable[SessionWorkload], domains: _Domains) -> None:
        # Running sessions first: their terms hold even if the project has too many.
        for session in sorted(sessions, key=lambda session: session.waits):
            constraints = session.kernels[0].constraints
            if constraints is not None:
                self._projects.setdefault(constraints.project, _Terms(domains)).add(constraints)

    def _count_running(self, sessions: Iterable[SessionWorkload], workspace: Workspace) -> None:
        for session in sessions:
            for kernel in session.kernels:
                if kernel.agent is None or kernel.constraints is None:
                    continue
                rule, agent = self.rule(kernel.constraints), workspace.position.get(kernel.agent)
                if rule is not None and agent is not None:
                    rule.count(agent, 1)


class _Domains:
    """Numbers the domains of the agents for each distance: the agent itself, or a tier."""

    def __init__(self, workspace: Workspace) -> None:
        self._tree, self.agents = workspace.tree, len(workspace.ids)
        self._by_tier: dict[int, Ints] = {}

    def problem(self, term: AffinityTerm) -> str:
        """Why the distance of a term is unknown; empty if it is known."""
        if isinstance(term.within, str) and term.within != AGENT and self._tree.tier_named(term.within) is None:
            return self._tree.no_tier_named(term.within)
        if isinstance(term.within, int) and term.within > self._tree.root_tier:
            return f"there is no tier {term.within}; the whole cluster is tier {self._tree.root_tier}"
        return ""

    def of(self, term: AffinityTerm) -> Ints:
        """The domain of each agent: its highest HyperNode up to the tier, else the agent itself."""
        tier = term.within if isinstance(term.within, int) else self._tree.tier_named(term.within) or 0
        if tier not in self._by_tier:
            domains = np.arange(self.agents, dtype=np.int64)
            for node in sorted(self._tree.hypernodes, key=lambda node: node.tier):
                if node.tier <= tier:
                    low, high = self._tree.span(node.name)
                    domains[low:high] = low
            # The virtual root holds all agents.
            self._by_tier[tier] = np.zeros_like(domains) if tier >= self._tree.root_tier else domains
        return self._by_tier[tier]


def _has_terms(session: SessionWorkload) -> bool:
    constraints = session.kernels[0].constraints if session.kernels else None
    return constraints is not None and bool(constraints.affinity or constraints.anti_affinity)
