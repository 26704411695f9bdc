"""Follows the fleet: its columns, and what changes in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from sokovan.sdk.core import catalog_calls
from sokovan.sdk.core.calls import Call
from sokovan.sdk.core.responses import decoded
from sokovan.sdk.core.streams.followers import text_of
from sokovan.sdk.core.streams.server_events import ServerEvent
from sokovan.sdk.errors import UnexpectedAnswer
from sokovan.wire.api.fleet import DeviceHolder, FleetView
from sokovan.wire.api.topology import FleetChangeView

T = TypeVar("T")
FLEET = "fleet"
_UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class FleetUpdate:
    """The fleet as it is now, and what has changed in it.

    Without a `change` it was read as a whole: at first, and after changes that were missed.
    """

    fleet: FleetView
    change: FleetChangeView | None = None


class FleetFollower:
    """Follows the fleet; it never ends."""

    def __init__(self) -> None:
        self._seen = ""
        self._fleet: FleetView | None = None

    def call(self) -> Call[object]:
        """The stream of the fleet, from the place reached so far."""
        return catalog_calls.fleet_changes(seen=self._seen)

    def accept(self, event: ServerEvent) -> FleetUpdate | None:
        """The fleet after an event."""
        if event.is_keep_alive:
            return None
        text, change = text_of(event), None
        if event.name == FLEET:
            self._fleet = decoded(text, FleetView)
        elif self._fleet is None:
            raise UnexpectedAnswer("the stream of the fleet begins with a change")
        else:
            change = decoded(text, FleetChangeView)
            self._fleet = changed_fleet(self._fleet, change)
        self._seen = event.place
        return FleetUpdate(self._fleet, change)

    def is_over(self) -> bool:
        """Never."""
        return False


def changed_fleet(fleet: FleetView, change: FleetChangeView) -> FleetView:
    """The fleet after a change."""
    if change.gone or change.joined:
        fleet = _regrouped(fleet, change)
    device_holder, holders = _holders(fleet, change)
    return replace(
        fleet,
        as_of=change.as_of,
        hypernodes=_new(change.hypernodes, fleet.hypernodes),
        hypernode_parent=_new(change.hypernode_parent, fleet.hypernode_parent),
        holders=holders,
        status=_with(fleet.status, change.agent_at, change.status),
        connected=_with(fleet.connected, change.agent_at, change.connected),
        kernels=_with(fleet.kernels, change.agent_at, change.kernels),
        hypernode=_with(fleet.hypernode, change.agent_at, change.hypernode),
        device_used=_with(fleet.device_used, change.device_at, change.device_used),
        device_holder=device_holder,
        device_fault=_with(fleet.device_fault, change.device_at, change.device_fault),
        device_use=_figures(fleet, change, fleet.device_use, change.device_use),
        device_memory=_figures(fleet, change, fleet.device_memory, change.device_memory),
        device_temperature=_figures(fleet, change, fleet.device_temperature, change.device_temperature),
        failing={name: text for name, text in (fleet.failing | change.failing).items() if text},
        slots=_new(change.slots, fleet.slots),
        used=_new(change.used, fleet.used),
    )


def _new(value: T | None, before: T) -> T:
    return before if value is None else value


def _with(column: list[T], places: Sequence[int], values: Sequence[T]) -> list[T]:
    """A column with new values at these places."""
    if not places:
        return column
    found = column.copy()
    for place, value in zip(places, values, strict=True):
        found[place] = value
    return found


def _figures(fleet: FleetView, change: FleetChangeView, column: list[int], values: Sequence[int]) -> list[int]:
    if not change.measured:
        return []
    return _with(column or [_UNKNOWN] * len(fleet.device), change.figure_at, values)


def _holders(fleet: FleetView, change: FleetChangeView) -> tuple[list[int], list[DeviceHolder]]:
    """The column of holders, and those that it names, by id."""
    first = len(fleet.holders)
    places = [first + place if place >= 0 else place for place in change.device_holder]
    column = _with(fleet.device_holder, change.device_at, places)
    all_of_them = [*fleet.holders, *change.holders]
    by_id = {all_of_them[place].id: all_of_them[place] for place in sorted({one for one in column if one >= 0})}
    ranks = {session_id: rank for rank, session_id in enumerate(sorted(by_id))}
    table = [ranks.get(one.id, _UNKNOWN) for one in all_of_them]
    return [table[place] if place >= 0 else place for place in column], [by_id[one] for one in ranks]


def _regrouped(fleet: FleetView, change: FleetChangeView) -> FleetView:
    """The columns without the agents that have gone, and with those that joined, by name."""
    gone, known = set(change.gone), len(fleet.agents)
    names = [*fleet.agents, *change.joined]
    agents = sorted((at for at, name in enumerate(names) if at >= known or name not in gone), key=lambda at: names[at])
    owners = [
        *fleet.device_agent,
        *(known + at for at, count in enumerate(change.joined_devices) for _ in range(count)),
    ]
    devices_of: list[list[int]] = [[] for _ in names]
    for device, owner in enumerate(owners):
        devices_of[owner].append(device)
    devices = [device for agent in agents for device in devices_of[agent]]

    count = len(change.device)
    figures = [_UNKNOWN] * count if fleet.device_use else []
    return replace(
        fleet,
        agents=[names[at] for at in agents],
        status=_chosen(fleet.status, [""] * len(change.joined), agents),
        connected=_chosen(fleet.connected, [False] * len(change.joined), agents),
        kernels=_chosen(fleet.kernels, [0] * len(change.joined), agents),
        hypernode=_chosen(fleet.hypernode, [_UNKNOWN] * len(change.joined), agents),
        device=_chosen(fleet.device, change.device, devices),
        device_agent=[place for place, agent in enumerate(agents) for _ in devices_of[agent]],
        device_slot=_chosen(fleet.device_slot, change.device_slot, devices),
        device_units=_chosen(fleet.device_units, change.device_units, devices),
        device_used=_chosen(fleet.device_used, [0] * count, devices),
        device_holder=_chosen(fleet.device_holder, [_UNKNOWN] * count, devices),
        device_fault=_chosen(fleet.device_fault, [""] * count, devices),
        device_use=_chosen(fleet.device_use, figures, devices),
        device_memory=_chosen(fleet.device_memory, figures, devices),
        device_temperature=_chosen(fleet.device_temperature, figures, devices),
        failing={name: text for name, text in fleet.failing.items() if name not in gone},
    )


def _chosen(column: list[T], more: list[T], places: Sequence[int]) -> list[T]:
    """The values at these places of a column and what follows it; without any it stays empty."""
    whole = [*column, *more]
    return [whole[place] for place in places] if whole else []
