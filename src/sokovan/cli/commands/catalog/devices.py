"""`sokovan agent devices`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from sokovan.cli import formatting
from sokovan.cli.arguments.parameters import Parameter
from sokovan.cli.commands.options import TABLE_OUTPUT, OutputOptions
from sokovan.cli.exit_codes import OK
from sokovan.cli.output import flush_output, print_status
from sokovan.cli.rendering import Column, OutputFormat, show_all, show_next, widths_of
from sokovan.wire.api.fleet import FleetView

if TYPE_CHECKING:
    from sokovan.sdk.core.streams.fleet import FleetUpdate


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceUse:
    """One device and the session that holds it; `gone` with its agent, or from it."""

    agent: str
    hypernode: str
    device: str
    slot: str
    units: int
    used: int
    session: str
    user: str
    fault: str = ""
    use_percent: int | None = None
    memory_percent: int | None = None
    temperature_c: int | None = None
    gone: bool = False


DEVICE_COLUMNS: list[Column[DeviceUse]] = [
    Column("agent", lambda one: one.agent),
    Column("hypernode", lambda one: one.hypernode or formatting.NONE),
    Column("device", lambda one: one.device),
    Column("slot", lambda one: one.slot),
    Column("used", lambda one: f"{one.used}/{one.units}"),
    Column("session", lambda one: one.session or formatting.NONE),
    Column("user", lambda one: one.user or formatting.NONE),
    Column("load", lambda one: _figure(one.use_percent, "%")),
    Column("mem", lambda one: _figure(one.memory_percent, "%")),
    Column("temp", lambda one: _figure(one.temperature_c, "C")),
    Column("fault", lambda one: "gone" if one.gone else one.fault or formatting.NONE),
]


def _figure(value: int | None, unit: str) -> str:
    return formatting.NONE if value is None else f"{value}{unit}"


def devices(
    agent: str | None = None,
    /,
    *,
    watch: Annotated[bool, Parameter(name=["--watch", "-w"], negative=())] = False,
    output: OutputOptions = TABLE_OUTPUT,
) -> int:
    """List devices and the sessions that hold them.

    Sessions of other users are not named. A device with a fault gets no new
    kernels until it is healthy again. `load`, `mem` and `temp` are what the
    agent measured last, if it can.

    For example:
      sokovan agent devices
      sokovan agent devices gpu2 --json
      sokovan agent devices --watch -o jsonl

    Parameters
    ----------
    agent
        Only devices of this agent.
    watch
        Print a line for each change of a session or fault, until Ctrl-C.
    """
    fmt = output.format()
    if watch and fmt.name == "json":  # a single JSON document cannot grow
        fmt = OutputFormat("jsonl")
    with output.client() as client:
        if not watch:
            show_all(_of_agent(device_uses(client.topology.fleet()), agent), DEVICE_COLUMNS, fmt, name=_name)
            return OK
        known: FleetView | None = None
        widths = widths_of((), DEVICE_COLUMNS)
        for update in client.topology.follow_fleet():
            if known is None:
                found = _of_agent(device_uses(update.fleet), agent)
                show_all(found, DEVICE_COLUMNS, fmt, name=_name)
                widths = widths_of(found, DEVICE_COLUMNS)
                if agent is not None and agent not in update.fleet.agents:
                    print_status(f"there is no agent {agent} yet; its devices are shown once it joins")
            else:
                for one in _of_agent(changed_devices(known, update), agent):
                    show_next(one, DEVICE_COLUMNS, fmt, name=_name, widths=widths)
            known = update.fleet
            flush_output()
    return OK


def _of_agent(found: Iterable[DeviceUse], agent: str | None) -> list[DeviceUse]:
    return [one for one in found if agent in {None, one.agent}]


def _name(one: DeviceUse) -> str:
    return one.device


def changed_devices(before: FleetView, update: FleetUpdate) -> Iterator[DeviceUse]:
    """Devices whose session or fault has changed, and those that have gone."""
    fleet, change = update.fleet, update.change
    now = range(len(fleet.device)) if change is None else change.device_at
    # As long as no agent goes or joins, devices keep their places.
    places = None if change is None or change.gone or change.joined else now
    known = {(one.agent, one.device): one for one in device_uses(before, places)}
    for one in device_uses(fleet, now):
        then = known.pop((one.agent, one.device), None)
        if then is None or _held(then) != _held(one):
            yield one
    for then in known.values():
        if change is None or then.agent in change.gone:
            yield replace(then, used=0, session="", user="", gone=True)


def _held(one: DeviceUse) -> tuple[int, str, str, str]:
    return one.used, one.session, one.user, one.fault


def device_uses(fleet: FleetView, places: Iterable[int] | None = None) -> Iterator[DeviceUse]:
    """The devices of a fleet, or those at some places, one by one."""
    for at in range(len(fleet.device)) if places is None else places:
        agent, holder = fleet.device_agent[at], fleet.device_holder[at]
        node = fleet.hypernode[agent]
        by = fleet.holders[holder] if holder >= 0 else None
        yield DeviceUse(
            agent=fleet.agents[agent],
            hypernode=fleet.hypernodes[node] if node >= 0 else "",
            device=fleet.device[at],
            slot=fleet.device_slot[at],
            units=fleet.device_units[at],
            used=fleet.device_used[at],
            session=by.name or by.id if by is not None else "",
            user=by.user if by is not None else "",
            fault=fleet.device_fault[at] if fleet.device_fault else "",
            use_percent=_measured(fleet.device_use, at),
            memory_percent=_measured(fleet.device_memory, at),
            temperature_c=_measured(fleet.device_temperature, at),
        )


def _measured(figures: Sequence[int], at: int) -> int | None:
    return figures[at] if figures and figures[at] >= 0 else None
