"""`sokovan agent timeline`: who held the devices of agents over time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from sokovan.cli.commands.catalog.time_window import LAST_HOUR, Window, WindowOptions
from sokovan.cli.commands.options import TABLE_OUTPUT, OutputOptions
from sokovan.cli.exit_codes import OK
from sokovan.cli.formatting import NONE
from sokovan.cli.output import print_status
from sokovan.cli.rendering import Column, show_all
from sokovan.sdk.errors import InvalidSetting
from sokovan.sdk.sync.client import Client
from sokovan.wire.api.fleet import TimelineView

# Characters of a bar.
WIDTH = 40
AGENTS_DEFAULT = AGENTS_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class DeviceLine:
    """A device over time: its bar, and the sessions that held it, the last one first."""

    agent: str
    device: str
    bar: str
    sessions: str


COLUMNS: list[Column[DeviceLine]] = [
    Column("agent", lambda line: line.agent),
    Column("device", lambda line: line.device),
    Column("time", lambda line: line.bar),
    Column("sessions", lambda line: line.sessions),
]


def device_timeline(
    name: str | None = None,
    /,
    *,
    limit: int = AGENTS_DEFAULT,
    time: WindowOptions = LAST_HOUR,
    output: OutputOptions = TABLE_OUTPUT,
) -> int:
    """Show when the devices of agents were held.

    One line for each device. The bar covers the time: # while the device was held,
    = while its agent was booked, / while its agent took no new sessions.

    For example:
      sokovan agent timeline
      sokovan agent timeline gpu2 --last 24h
      sokovan agent timeline --to 2030-01-31T18:00:00Z --last 6h
      sokovan agent timeline --json

    Parameters
    ----------
    name
        Only devices of this agent.
    limit
        Maximum number of agents; default: 100.
    """
    if limit < 1:
        raise InvalidSetting(f"--limit {limit} is less than 1", hint="use 1 or more")
    fmt, window = output.format(), time.window()
    with output.client() as client:
        views = list(_pages(client, window, agent=name, limit=limit))
    if fmt.name in {"json", "jsonl", "yaml"}:
        show_all(views, [], fmt, name=lambda view: view.since)
        return OK
    show_all([line for view in views for line in lines_of(view)], COLUMNS, fmt, name=lambda line: line.device)
    if any(view.cut for view in views):
        print_status("not all holds are listed: choose a shorter time, or one agent")
    if views[-1].next:
        print_status(f"the first {limit} agents are listed, and there are more; --limit lists more")
    return OK


def _pages(client: Client, window: Window, *, agent: str | None, limit: int) -> Iterator[TimelineView]:
    cursor, left = None, limit
    while left > 0:
        view = client.topology.timeline(
            since=window.since, until=window.until, agent=agent, limit=min(left, AGENTS_AT_ONCE), cursor=cursor
        )
        yield view
        cursor, left = view.next, left - len(view.agents)
        if cursor is None:
            return


def lines_of(view: TimelineView) -> Iterator[DeviceLine]:
    """A line for each device."""
    from_s, to_s = _time(view.since), _time(view.until)
    for agent in view.agents:
        closed = [(_time(one.since), _end(one.until, to_s)) for one in view.closed if one.agent == agent]
        booked = [(_time(one.starts_at), _time(one.ends_at)) for one in view.bookings if agent in one.agents]
        for device in view.devices.get(agent, []):
            holds = [one for one in view.holds if one.agent == agent and one.device == device]
            held = [(_time(one.since), _end(one.until, to_s)) for one in holds]
            names = dict.fromkeys(one.name or "(hidden)" for one in reversed(holds))
            bar = _bar(from_s, to_s, {"#": held, "=": booked, "/": closed})
            yield DeviceLine(agent, device, bar, ", ".join(names) or NONE)


def _bar(from_s: float, to_s: float, spans: dict[str, list[tuple[float, float]]]) -> str:
    marks = []
    for place in range(WIDTH):
        begin_s = from_s + (to_s - from_s) * place / WIDTH
        end_s = from_s + (to_s - from_s) * (place + 1) / WIDTH
        # The first kind that reaches into this part of the time: a short hold is seen too.
        found = (mark for mark, times in spans.items() if any(a < end_s and b > begin_s for a, b in times))
        marks.append(next(found, " "))
    return f"|{''.join(marks)}|"


def _time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _end(text: str | None, now_s: float) -> float:
    return now_s if text is None else _time(text)
