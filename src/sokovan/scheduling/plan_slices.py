"""Snapshots for decisions beside a plan that is applied in slices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from sokovan.domain.ids import AgentId, KernelId, QueueName, SessionId
from sokovan.domain.owners.policy import Scope
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.slots import ResourceSlot, total
from sokovan.scheduling.snapshot import OwnerUsage, SessionWorkload, SystemSnapshot, agents_holding


@dataclass(frozen=True, slots=True)
class PlannedPlaces:
    """The agents that a plan has for the waiting kernels of a session.

    `hypernode` is where it is then, `lender` the queue that lends it what it runs on.
    """

    agents: Mapping[KernelId, AgentId]
    hypernode: str | None = None
    lender: QueueName | None = None


class PlacedWorkloads:
    """Sessions as they are once their part of a plan is applied.

    Kept for as long as a session does not change, so that a plan of thousands of sessions is
    not converted for every decision beside it.
    """

    def __init__(self) -> None:
        self._known: dict[SessionId, tuple[SessionWorkload, SessionWorkload]] = {}

    def of(self, session: SessionWorkload, places: PlannedPlaces) -> SessionWorkload:
        """A session in its planned places."""
        known = self._known.get(session.session_id)
        if known is not None and known[0] is session:
            return known[1]
        agents = places.agents
        kernels = [
            replace(one, agent=agents[one.kernel_id]) if one.agent is None and one.kernel_id in agents else one
            for one in session.kernels
        ]
        hypernode, loan = places.hypernode or session.hypernode, places.lender or session.loan
        placed = replace(session, kernels=tuple(kernels), hypernode=hypernode, loan=loan, starting=True)
        self._known[session.session_id] = session, placed
        return placed

    def keep(self, session_ids: Iterable[SessionId]) -> None:
        """Forget all but these."""
        self._known = {one: self._known[one] for one in session_ids if one in self._known}


def with_planned(
    snapshot: SystemSnapshot,
    planned: Mapping[SessionId, PlannedPlaces],
    placed: PlacedWorkloads,
) -> SystemSnapshot:
    """The snapshot once the sessions of a plan that are left have their places.

    Their slots are taken on their agents and from their owners, so that a decision for others
    neither uses the places nor exceeds a limit.
    """
    sessions: list[SessionWorkload] = []
    on_agents: dict[AgentId, list[ResourceSlot]] = {}
    of_owners: dict[Owner, tuple[list[ResourceSlot], int]] = {}
    for session in snapshot.sessions:
        places = planned.get(session.session_id)
        if places is None:
            sessions.append(session)
            continue
        sessions.append(placed.of(session, places))
        slots, count = of_owners.get(session.owner, ([], 0))
        for kernel in session.kernels:
            agent = places.agents.get(kernel.kernel_id)
            if agent is not None and kernel.agent is None:
                on_agents.setdefault(agent, []).append(kernel.slots)
                slots.append(kernel.slots)
        if session.session_type.is_charged:
            of_owners[session.owner] = slots, count + session.waits
    changed = with_sessions(snapshot, sessions)
    tree = vars(changed).get("tree")
    agents = agents_holding(snapshot.agents, on_agents)
    changed = replace(changed, agents=agents, usage=_usage(snapshot, of_owners))
    if tree is not None:  # the same agents are in it
        vars(changed)["tree"] = tree
    return changed


def with_sessions(snapshot: SystemSnapshot, sessions: Iterable[SessionWorkload]) -> SystemSnapshot:
    """The snapshot with other sessions; its tree, which takes long to build, is kept."""
    changed = replace(snapshot, sessions=tuple(sessions))
    if "tree" in vars(snapshot):
        vars(changed)["tree"] = snapshot.tree
    return changed


def _usage(
    snapshot: SystemSnapshot, of_owners: Mapping[Owner, tuple[list[ResourceSlot], int]]
) -> dict[Scope, dict[str, OwnerUsage]]:
    """The usage of owners with what is planned for them."""
    usage = {scope: dict(owners) for scope, owners in snapshot.usage.items()}
    for owner, (slots, count) in of_owners.items():
        more = total(slots)
        for scope, name in owner.scopes:
            before = usage.setdefault(scope, {}).get(name, OwnerUsage())
            usage[scope][name] = OwnerUsage(total([before.slots, more]), before.sessions + count)
    return usage
