"""Agents and devices as columns; agents that have not changed keep theirs. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeAlias

from sokovan.api.mapping.times import time_text
from sokovan.domain.ids import AgentId
from sokovan.domain.owners.access import UNOWNED, Ownership
from sokovan.domain.records import AgentRecord, Device, HeldDevice
from sokovan.domain.slots import ResourceSlot
from sokovan.ports.agent_states import AgentState, DeviceFigures
from sokovan.wire.api.fleet import DeviceHolder, FleetView

# In columns: no place in another list, and one that the caller may not see.
NO_PLACE, HIDDEN = -1, -2
# Use, memory and temperature of a device that is not measured.
UNKNOWN = (-1, -1, -1)

# Whether the caller sees who holds a device.
Sees: TypeAlias = Callable[[HeldDevice], bool]


@dataclass(frozen=True, slots=True)
class FleetReading:
    """A reading of the fleet: agents by name, the holds of each by device."""

    now_ms: int
    agents: Sequence[AgentRecord]
    parents: Mapping[str, str] = field(default_factory=dict)
    holds: Mapping[AgentId, tuple[HeldDevice, ...]] = field(default_factory=dict)
    states: Mapping[AgentId, AgentState] = field(default_factory=dict)
    is_connected: Callable[[AgentId], bool] = lambda _agent_id: True


@dataclass(frozen=True, slots=True, eq=False)
class AgentColumns:
    """An agent as it was read, and the columns of its devices.

    The holders of a device are all that hold units of it; a figure that is unknown is -1.
    """

    record: AgentRecord
    holds: tuple[HeldDevice, ...]
    figures: Mapping[str, DeviceFigures]
    connected: bool
    hypernode: str
    failing: str
    used: tuple[int, ...]
    holders: tuple[tuple[HeldDevice, ...], ...]
    measured: tuple[tuple[int, int, int], ...]

    @property
    def devices(self) -> tuple[Device, ...]:
        """Its devices, in the order of the columns."""
        return self.record.devices


@dataclass(frozen=True, slots=True, eq=False)
class Fleet:
    """The fleet at a time.

    Agents are by name; `hypernode_parent` is the place of the one above each of `hypernodes`.
    It is `measured` if any agent reports figures of devices.
    """

    now_ms: int
    agents: Mapping[str, AgentColumns]
    hypernodes: list[str]
    hypernode_parent: list[int]
    measured: bool
    slots: dict[str, int]
    used: dict[str, int]


def fleet_of(reading: FleetReading, before: Fleet | None = None) -> Fleet:
    """The fleet of a reading, with the columns of those agents that are as `before`."""
    known = {} if before is None else before.agents
    agents = {}
    for record in reading.agents:
        name = record.info.agent_id
        agents[str(name)] = _columns(reading, record, known.get(name))
    parents = reading.parents
    hypernodes = {name: place for place, name in enumerate(dict.fromkeys(parents.values()))}
    return Fleet(
        now_ms=reading.now_ms,
        agents=agents,
        hypernodes=list(hypernodes),
        hypernode_parent=[hypernodes[parents[name]] if name in parents else NO_PLACE for name in hypernodes],
        measured=any(state.devices for state in reading.states.values()),
        slots=_amounts(one.info.available_slots for one in reading.agents),
        used=_amounts(one.info.occupied_slots for one in reading.agents),
    )


def seen_by(scope: Ownership) -> Sees:
    """Whether someone with this scope sees who holds a device."""
    if scope == UNOWNED:
        return lambda _one: True
    user, domain = scope.user, scope.domain
    return lambda one: user in {"", one.user} and domain in {"", one.domain}


def fleet_view(fleet: Fleet, sees: Sees) -> FleetView:
    """The columns of all agents; only holders that the caller `sees` are named."""
    found = list(fleet.agents.values())
    places = {name: place for place, name in enumerate(fleet.hypernodes)}
    devices = [device for one in found for device in one.devices]
    device_holder, holders = holder_column(chain.from_iterable(one.holders for one in found), sees)
    figures = list(chain.from_iterable(one.measured for one in found)) if fleet.measured else []
    return FleetView(
        as_of=time_text(fleet.now_ms),
        hypernodes=fleet.hypernodes,
        hypernode_parent=fleet.hypernode_parent,
        holders=holders,
        agents=list(fleet.agents),
        status=[one.record.info.status.value for one in found],
        connected=[one.connected for one in found],
        kernels=[one.record.info.kernel_count for one in found],
        hypernode=[places.get(one.hypernode, NO_PLACE) for one in found],
        device=[one.device_id for one in devices],
        device_agent=[at for at, one in enumerate(found) for _ in one.devices],
        device_slot=[one.slot for one in devices],
        device_units=[one.units for one in devices],
        device_used=list(chain.from_iterable(one.used for one in found)),
        device_holder=device_holder,
        device_fault=[one.fault for one in devices],
        device_use=[one[0] for one in figures],
        device_memory=[one[1] for one in figures],
        device_temperature=[one[2] for one in figures],
        failing={name: one.failing for name, one in fleet.agents.items() if one.failing},
        slots=fleet.slots,
        used=fleet.used,
    )


def holder_column(holders: Iterable[tuple[HeldDevice, ...]], sees: Sees) -> tuple[list[int], list[DeviceHolder]]:
    """For each device the place of a holder that the caller sees, and these by id.

    Of several the last one.
    """
    known: dict[str, int] = {}
    named: list[HeldDevice] = []
    column: list[int] = []
    for those in holders:
        seen = next((one for one in reversed(those) if sees(one)), None) if those else None
        if seen is None:
            column.append(HIDDEN if those else NO_PLACE)
            continue
        place = known.setdefault(seen.session_id, len(named))
        if place == len(named):
            named.append(seen)
        column.append(place)
    by_id = sorted(known)
    ranks = [0] * len(by_id)
    for rank, session_id in enumerate(by_id):
        ranks[known[session_id]] = rank
    ranks += [HIDDEN, NO_PLACE]  # at the places -2 and -1
    found = [named[known[session_id]] for session_id in by_id]
    views = [DeviceHolder(id=one.session_id, name=one.name, user=one.user, queue=one.queue) for one in found]
    return [ranks[place] for place in column], views


def _columns(reading: FleetReading, record: AgentRecord, known: AgentColumns | None) -> AgentColumns:
    agent_id = record.info.agent_id
    state = reading.states.get(agent_id)
    figures: Mapping[str, DeviceFigures] = {} if state is None else state.devices
    holds, hypernode = reading.holds.get(agent_id, ()), reading.parents.get(agent_id, "")
    connected = reading.is_connected(agent_id)
    if (
        known is not None
        and known.record is record
        and (known.connected, known.hypernode) == (connected, hypernode)
        and known.holds == holds
        and (known.figures is figures or known.figures == figures)
    ):
        return known
    used, holders = _used(record.devices, holds)
    return AgentColumns(
        record=record,
        holds=holds,
        figures=figures,
        connected=connected,
        hypernode=hypernode,
        failing=_refusal(record),
        used=used,
        holders=holders,
        measured=_measured(record.devices, figures),
    )


def _refusal(agent: AgentRecord) -> str:
    """Why an agent that is alive gets no new kernels; empty if it does."""
    if not agent.info.approved:
        return f"not approved yet: {agent.info.claims}"
    return agent.info.health.reason if agent.info.health.is_failing else ""


def _used(
    devices: Sequence[Device], holds: Sequence[HeldDevice]
) -> tuple[tuple[int, ...], tuple[tuple[HeldDevice, ...], ...]]:
    """The units in use and the holders of each device."""
    if not holds:
        return (0,) * len(devices), ((),) * len(devices)
    by_device: defaultdict[str, list[HeldDevice]] = defaultdict(list)
    for one in holds:
        by_device[one.device_id].append(one)
    holders = tuple([tuple(by_device.get(one.device_id, ())) for one in devices])
    return tuple([sum(one.units for one in those) for those in holders]), holders


def _measured(devices: Sequence[Device], figures: Mapping[str, DeviceFigures]) -> tuple[tuple[int, int, int], ...]:
    if not figures:
        return (UNKNOWN,) * len(devices)
    return tuple([_shown(figures.get(one.device_id)) for one in devices])


def _shown(one: DeviceFigures | None) -> tuple[int, int, int]:
    if one is None:
        return UNKNOWN
    return _known(one.use_percent), _known(one.memory_percent), _known(one.temperature_c)


def _known(figure: int | None) -> int:
    return -1 if figure is None else figure


def _amounts(amounts: Iterable[ResourceSlot]) -> dict[str, int]:
    """Sums by slot of thousands of agents, without objects in between."""
    found: defaultdict[str, int] = defaultdict(int)
    for one in amounts:
        for slot, amount in one.items():
            found[slot] += amount
    return dict(found)
