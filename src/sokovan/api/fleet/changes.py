"""Differences of the fleet between two times, by places in its columns. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sokovan.api.fleet.columns import NO_PLACE, UNKNOWN, AgentColumns, Fleet, Sees, holder_column
from sokovan.api.mapping.times import time_text
from sokovan.domain.records import HeldDevice
from sokovan.wire.api.topology import FleetChangeView


@dataclass(frozen=True, slots=True)
class FleetDifference:
    """A change without `holders`, which depend on who reads it, and all of these."""

    change: FleetChangeView
    holders: list[tuple[HeldDevice, ...]]

    @property
    def size(self) -> int:
        """How many agents and devices it has values of."""
        change = self.change
        rows = len(change.gone) + len(change.device) + len(change.agent_at)
        return rows + len(change.device_at) + len(change.figure_at)


def fleet_difference(before: Fleet, after: Fleet) -> FleetDifference | None:
    """The difference that turns `before` into `after`; None if there is none."""
    is_same_tree = (before.hypernodes, before.hypernode_parent) == (after.hypernodes, after.hypernode_parent)
    change = FleetChangeView(
        as_of=time_text(after.now_ms),
        gone=[name for name in before.agents if name not in after.agents],
        hypernodes=None if is_same_tree else after.hypernodes,
        hypernode_parent=None if is_same_tree else after.hypernode_parent,
        measured=after.measured,
        slots=None if before.slots == after.slots else after.slots,
        used=None if before.used == after.used else after.used,
    )
    holders = _Comparison(before, after, change).holders()
    if change == FleetChangeView(as_of=change.as_of, measured=before.measured):
        return None
    return FleetDifference(change, holders)


def change_view(found: FleetDifference, sees: Sees) -> FleetChangeView:
    """The change as someone who `sees` these holders gets it."""
    column, holders = holder_column(found.holders, sees)
    return replace(found.change, device_holder=column, holders=holders)


class _Comparison:
    """Adds the agents that have changed to the columns of a change."""

    def __init__(self, before: Fleet, after: Fleet, change: FleetChangeView) -> None:
        self._before, self._after, self._change = before, after, change
        self._places_before = {name: place for place, name in enumerate(before.hypernodes)}
        self._places = {name: place for place, name in enumerate(after.hypernodes)}
        self._holders: list[tuple[HeldDevice, ...]] = []

    def holders(self) -> list[tuple[HeldDevice, ...]]:
        """Compare all; the holders of the devices that have changed."""
        have_moved = self._places_before != self._places
        first = 0
        for at, (name, now) in enumerate(self._after.agents.items()):
            then = self._before.agents.get(name)
            if then is not now or have_moved:
                self._compare(name, self._known(name, then, now), now, at=at, first=first)
            first += len(now.devices)
        return self._holders

    def _known(self, name: str, then: AgentColumns | None, now: AgentColumns) -> AgentColumns | None:
        """The agent as its reader knows it after some have gone and joined."""
        if then is not None and _has_same_devices(then, now):
            return then
        if then is not None:
            self._change.gone.append(name)
        self._change.joined.append(name)
        self._change.joined_devices.append(len(now.devices))
        for device in now.devices:
            self._change.device.append(device.device_id)
            self._change.device_slot.append(device.slot)
            self._change.device_units.append(device.units)
        return None

    def _compare(self, name: str, then: AgentColumns | None, now: AgentColumns, *, at: int, first: int) -> None:
        change, info = self._change, now.record.info
        place = self._places.get(now.hypernode, NO_PLACE)
        if then is None or self._differ(then, now, place):
            change.agent_at.append(at)
            change.status.append(info.status.value)
            change.connected.append(now.connected)
            change.kernels.append(info.kernel_count)
            change.hypernode.append(place)
        if now.failing != (then.failing if then is not None else ""):
            change.failing[name] = now.failing
        if then is not now:
            self._compare_devices(first, then, now)
            if self._after.measured:
                self._compare_figures(first, then, now)

    def _differ(self, then: AgentColumns, now: AgentColumns, place: int) -> bool:
        one, other = then.record.info, now.record.info
        return (one.status, one.kernel_count, then.connected) != (
            other.status,
            other.kernel_count,
            now.connected,
        ) or self._places_before.get(then.hypernode, NO_PLACE) != place

    def _compare_devices(self, first: int, then: AgentColumns | None, now: AgentColumns) -> None:
        change = self._change
        known = () if then is None else tuple(zip(then.devices, then.used, then.holders, strict=True))
        for at, (device, used, holders) in enumerate(zip(now.devices, now.used, now.holders, strict=True)):
            if known and (known[at][0].fault, *known[at][1:]) == (device.fault, used, holders):
                continue
            change.device_at.append(first + at)
            change.device_used.append(used)
            change.device_fault.append(device.fault)
            self._holders.append(holders)

    def _compare_figures(self, first: int, then: AgentColumns | None, now: AgentColumns) -> None:
        change = self._change
        if then is not None and then.measured == now.measured:
            return
        for at, figures in enumerate(now.measured):
            if figures == (UNKNOWN if then is None else then.measured[at]):
                continue
            change.figure_at.append(first + at)
            for column, figure in zip(
                (change.device_use, change.device_memory, change.device_temperature), figures, strict=True
            ):
                column.append(figure)


def _has_same_devices(then: AgentColumns, now: AgentColumns) -> bool:
    if then.devices is now.devices:
        return True
    shapes = [[(one.device_id, one.slot, one.units) for one in agent.devices] for agent in (then, now)]
    return shapes[0] == shapes[1]
