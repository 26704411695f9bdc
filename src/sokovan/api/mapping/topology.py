"""Converts the topology and the fleet from and to wire types."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from sokovan.api.mapping.requests import topology_text
from sokovan.api.mapping.times import time_text
from sokovan.domain.cluster.topology import ROOT, HyperNode
from sokovan.domain.cluster.topology_rules import TierRule, Topology
from sokovan.domain.errors import InvalidTopology, SokovanError, quoted
from sokovan.domain.ids import AgentId
from sokovan.domain.problems import InvalidRequest, Problem
from sokovan.domain.records import AgentRecord, HeldDevice
from sokovan.domain.slots import NO_SLOTS, ResourceSlot, total
from sokovan.domain.topology_limits import TopologyViolation
from sokovan.orchestrator.topology_changes import TopologyState
from sokovan.ports.agent_states import AgentState, DeviceFigures
from sokovan.wire.api.fleet import DeviceHolder, FleetView
from sokovan.wire.api.topology import (
    HyperNodeBody,
    TierBody,
    TopologyBody,
    TopologyChangeView,
    TopologyNode,
    TopologyView,
    ViolationView,
)

T = TypeVar("T")

VIOLATIONS_SHOWN = 100
# In columns: no place in another list, and one that the caller may not see.
NO_PLACE, HIDDEN = -1, -2
_NO_FIGURES = DeviceFigures()
_FREE = (0, NO_PLACE)


def topology_of(body: TopologyBody) -> Topology:
    """The topology of a body; tiers are numbered from 1.

    Raises InvalidTopology, InvalidRequest.
    """
    rules = tuple(_located(f"tiers/{at}", TierRule, at + 1, one.name, one.label) for at, one in enumerate(body.tiers))
    numbers = {rule.name: rule.tier for rule in rules}
    nodes = []
    for at, node in enumerate(body.hypernodes):
        if node.tier not in numbers:
            known = ", ".join(numbers) or "none"
            hint = f"the tiers are {known}"
            raise InvalidTopology(hypernode=node.name, problem=f"has the unknown tier {quoted(node.tier)}", hint=hint)
        place = f"hypernodes/{at}"
        nodes.append(_located(place, HyperNode, node.name, numbers[node.tier], tuple(node.members), node.tier))
    return Topology(rules, tuple(nodes))


def _located(where: str, make: Callable[..., T], *values: object) -> T:
    try:
        return make(*values)
    except InvalidTopology:
        raise
    except SokovanError as error:
        raise InvalidRequest([Problem(where, error.message)]) from error


def topology_view(state: TopologyState) -> TopologyView:
    """The view of a topology with its tree."""
    topology = state.topology
    return TopologyView(
        tiers=[TierBody(name=rule.name, label=rule.label) for rule in topology.tiers],
        hypernodes=[
            HyperNodeBody(name=node.name, tier=node.tier_name or str(node.tier), members=list(node.members))
            for node in topology.hypernodes
        ],
        tree=_nodes(state),
    )


def change_view(state: TopologyState, found: Sequence[TopologyViolation], *, applied: bool) -> TopologyChangeView:
    """The view of a change and of the constraints that it does not meet."""
    tree = state.tree
    top = [child for child in tree.children(ROOT) if tree.tier(child) == 0]
    return TopologyChangeView(
        applied=applied,
        hypernodes=len(state.hypernodes),
        agents=len(state.agents),
        unplaced=len(top),
        violation_count=len(found),
        violations=[_violation(one) for one in found[:VIOLATIONS_SHOWN]],
    )


def _violation(one: TopologyViolation) -> ViolationView:
    return ViolationView(
        session=one.session.session_id,
        name=one.session.spec.name,
        status=one.session.status.value,
        group=one.group,
        constraint=topology_text(one.constraint),
        problem=one.problem,
    )


def _nodes(state: TopologyState) -> list[TopologyNode]:
    """HyperNodes and agents, depth first, each with the sums over the agents below."""
    tree, records = state.tree, {str(one.info.agent_id): one for one in state.agents}
    hypernodes = {node.name: node for node in state.hypernodes}
    listed = {node.name for node in state.topology.hypernodes}
    found: list[TopologyNode] = []
    stack = [(name, "") for name in reversed(tree.children(ROOT))]
    while stack:
        name, parent = stack.pop()
        below = [records[agent] for agent in tree.agents_under(name)]
        node = hypernodes.get(name)
        found.append(
            TopologyNode(
                name=name,
                kind="agent" if node is None else "hypernode",
                tier=tree.tier(name),
                tier_name=(node.tier_name or "") if node is not None else "",
                parent=parent,
                origin="" if node is None else "listed" if name in listed else "label",
                agents=len(below),
                slots=dict(_sum(one.info.available_slots for one in below)),
                used=dict(_sum(one.info.occupied_slots for one in below)),
                free=dict(_sum(_free(one) for one in below)),
                status=records[name].info.status.value if node is None else "",
            )
        )
        stack.extend((child, name) for child in reversed(tree.children(name)))
    return found


def _free(agent: AgentRecord) -> ResourceSlot:
    return agent.info.free_slots if agent.info.schedulable else NO_SLOTS


def _sum(amounts: Iterable[ResourceSlot]) -> ResourceSlot:
    return total(list(amounts))


def fleet_view(
    agents: Sequence[AgentRecord],
    parents: Mapping[str, str],
    held: Sequence[HeldDevice],
    *,
    now_ms: int,
    sees: Callable[[HeldDevice], bool],
    is_connected: Callable[[AgentId], bool],
) -> FleetView:
    """Agents and devices as columns; the holders are those that the caller `sees`."""
    hypernodes = {name: place for place, name in enumerate(dict.fromkeys(parents.values()))}
    holders: dict[str, tuple[int, DeviceHolder]] = {}
    # By agent and device: the units, and the place of the holder. Tuples as keys would cost more than all the rest.
    uses: defaultdict[str, dict[str, list[int]]] = defaultdict(dict)
    for one in held:
        use = uses[one.agent_id].setdefault(one.device_id, [0, NO_PLACE])
        use[0] += one.units
        if not sees(one):
            use[1] = HIDDEN if use[1] == NO_PLACE else use[1]
            continue
        known = holders.get(one.session_id)
        if known is None:
            view = DeviceHolder(id=one.session_id, name=one.name, user=one.user, queue=one.queue)
            known = holders[one.session_id] = (len(holders), view)
        use[1] = known[0]
    names = [str(one.info.agent_id) for one in agents]
    units, users = _used_columns(agents, uses)
    return FleetView(
        as_of=time_text(now_ms),
        hypernodes=list(hypernodes),
        hypernode_parent=[hypernodes[parents[name]] if name in parents else NO_PLACE for name in hypernodes],
        holders=[view for _, view in holders.values()],
        agents=names,
        status=[one.info.status.value for one in agents],
        connected=[is_connected(one.info.agent_id) for one in agents],
        kernels=[one.info.kernel_count for one in agents],
        hypernode=[hypernodes[parents[name]] if name in parents else NO_PLACE for name in names],
        device=[device.device_id for one in agents for device in one.devices],
        device_agent=[at for at, one in enumerate(agents) for _ in one.devices],
        device_slot=[device.slot for one in agents for device in one.devices],
        device_units=[device.units for one in agents for device in one.devices],
        device_used=units,
        device_holder=users,
        device_fault=[device.fault for one in agents for device in one.devices],
        failing={name: text for name, one in zip(names, agents, strict=True) if (text := _refusal(one))},
        slots=_amounts(one.info.available_slots for one in agents),
        used=_amounts(one.info.occupied_slots for one in agents),
    )


def _refusal(agent: AgentRecord) -> str:
    """Why an agent that is alive gets no new kernels; empty if it does."""
    if not agent.info.approved:
        return f"not approved yet: {agent.info.claims}"
    return agent.info.health.reason if agent.info.health.is_failing else ""


def _used_columns(
    agents: Sequence[AgentRecord], uses: Mapping[str, Mapping[str, Sequence[int]]]
) -> tuple[list[int], list[int]]:
    """The units in use and the holder of each device, agent by agent."""
    units: list[int] = []
    holders: list[int] = []
    for one in agents:
        known = uses.get(one.info.agent_id)
        if known is None:
            units += [0] * len(one.devices)
            holders += [NO_PLACE] * len(one.devices)
            continue
        found = [known.get(device.device_id, _FREE) for device in one.devices]
        units += [use[0] for use in found]
        holders += [use[1] for use in found]
    return units, holders


def measured_fleet(view: FleetView, agents: Sequence[AgentRecord], states: Mapping[AgentId, AgentState]) -> FleetView:
    """The view of these agents with the use of their devices, if it is measured."""
    if not any(state.devices for state in states.values()):
        return view
    found: list[DeviceFigures] = []
    for agent in agents:
        state = states.get(agent.info.agent_id)
        measured = {} if state is None else state.devices
        found.extend(measured.get(one.device_id, _NO_FIGURES) for one in agent.devices)
    return replace(
        view,
        device_use=[_known(one.use_percent) for one in found],
        device_memory=[_known(one.memory_percent) for one in found],
        device_temperature=[_known(one.temperature_c) for one in found],
    )


def _known(figure: int | None) -> int:
    return NO_PLACE if figure is None else figure


def _amounts(amounts: Iterable[ResourceSlot]) -> dict[str, int]:
    """Sums by slot of thousands of agents, without objects in between."""
    found: defaultdict[str, int] = defaultdict(int)
    for one in amounts:
        for slot, amount in one.items():
            found[slot] += amount
    return dict(found)
