"""`sokovan booking` and `sokovan agent maintenance`: agents kept for a time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated

from sokovan.cli import formatting
from sokovan.cli.arguments.parameters import Parameter
from sokovan.cli.commands.catalog.catalog_actions import list_all, remove_named, show_named
from sokovan.cli.commands.catalog.catalog_options import read_amounts
from sokovan.cli.commands.options import (
    DEFAULT_ACTION,
    DEFAULT_SERVER,
    TABLE_OUTPUT,
    ActionOptions,
    OutputOptions,
    ServerOptions,
    Yes,
)
from sokovan.cli.exit_codes import OK
from sokovan.cli.formatting import utc_text
from sokovan.cli.rendering import Column
from sokovan.sdk.core.durations import seconds
from sokovan.sdk.errors import InvalidSetting, Refused
from sokovan.wire.api.fleet import BookingBody

Texts = tuple[str, ...]
# The server's code for a name that is in use.
ALREADY_EXISTS = "already-exists"


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """When a booking begins and ends."""

    begins: Annotated[str, Parameter(name="--from", help="Beginning: 2030-01-31T18:00:00Z.")]
    to: Annotated[str | None, Parameter(help="End, instead of --for: 2030-01-31T20:00:00Z.")] = None
    lasts: Annotated[str | None, Parameter(name="--for", help="Length: 2h.")] = None

    def end(self) -> str:
        """The end, of which the time or the length is given. Raises InvalidSetting."""
        if (self.to is None) == (self.lasts is None):
            raise InvalidSetting("a booking has an end or a length", hint="give one of --to and --for")
        if self.to is not None:
            return self.to
        try:
            start = datetime.fromisoformat(self.begins)
        except ValueError:
            problem = f"--from {self.begins[:60]!r} is not a time"
            raise InvalidSetting(problem, hint="use 2030-01-31T18:00:00Z") from None
        length_s = seconds(self.lasts or "", what="--for")
        try:
            return utc_text(start + timedelta(seconds=length_s), "milliseconds")
        except OverflowError:
            raise InvalidSetting(f"--for {self.lasts}: it would end after the year 9999", hint="book less") from None


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Booked:
    """Agents to book, and those who may use them."""

    agent: Annotated[Texts, Parameter(negative=(), help="Agent to book. Repeatable.")] = ()
    hypernode: Annotated[str | None, Parameter(help="Book all agents below this HyperNode.")] = None
    slot: Annotated[
        Texts, Parameter(negative=(), help="Book agents that together have this much: gpu=16. Repeatable.")
    ] = ()
    user: Annotated[Texts, Parameter(negative=(), help="User who may use it. Repeatable.")] = ()
    group: Annotated[Texts, Parameter(negative=(), help="Group that may use it. Repeatable.")] = ()
    queue: Annotated[Texts, Parameter(negative=(), help="Queue whose sessions use it. Repeatable.")] = ()
    release_unused: Annotated[str, Parameter(help="Give it up if unused this long.")] = "10m"

    def require_one_choice(self) -> None:
        """Raise InvalidSetting unless agents are chosen in one way, for someone."""
        if sum(map(bool, (self.agent, self.hypernode, self.slot))) != 1:
            hint = "give one of --agent, --hypernode and --slot"
            raise InvalidSetting("a booking is of agents, of a HyperNode or of slots", hint=hint)
        if not (self.user or self.group or self.queue):
            raise InvalidSetting("a booking is for users, groups or queues", hint="give --user, --group or --queue")


NOTHING_BOOKED = Booked()


Replace = Annotated[bool, Parameter(negative=(), help="Replace an existing booking of this name.")]


def create(
    name: str,
    /,
    *,
    period: Period,
    booked: Booked = NOTHING_BOOKED,
    replace: Replace = False,
    server: ActionOptions = DEFAULT_ACTION,
) -> int:
    """Book agents for a time.

    It is accepted only if all sessions on these agents end before it begins. Until
    then others use the agents if they end in time. Sessions name it: run --booking.

    For example:
      FROM=2030-01-31T18:00:00Z
      sokovan booking create a --from $FROM --for 2h --agent gpu1 --user ana
      sokovan booking create b --from $FROM --for 4h --hypernode r1 --group nlp
      sokovan booking create c --from $FROM --for 4h --slot gpu=16 --queue prod

    Parameters
    ----------
    name
        Name of the booking.
    """
    booked.require_one_choice()
    body = BookingBody(
        name=name,
        starts_at=period.begins,
        ends_at=period.end(),
        agents=list(booked.agent),
        hypernode=booked.hypernode,
        slots=read_amounts(booked.slot, "--slot") if booked.slot else None,
        users=list(booked.user),
        groups=list(booked.group),
        queues=list(booked.queue),
        release_unused_s=int(seconds(booked.release_unused, what="--release-unused")),
    )
    return _put(server, body, replace=replace)


def maintenance(
    *agents: str,
    period: Period,
    name: Annotated[str | None, Parameter(help="Name; default: maintenance-AGENT.")] = None,
    replace: Replace = False,
    server: ActionOptions = DEFAULT_ACTION,
) -> int:
    """Keep agents free of sessions for a time.

    Until it begins, sessions that end in time run there. It is accepted only if all
    sessions on these agents end before it begins.

    For example:
      sokovan agent maintenance gpu2 --from 2030-01-31T18:00:00Z --for 2h
      sokovan booking rm maintenance-gpu2

    Parameters
    ----------
    agents
        Names of the agents.
    """
    if not agents:
        raise InvalidSetting("no agent is named", hint="sokovan agent ls lists them")
    body = BookingBody(
        name=name or f"maintenance-{agents[0]}",
        starts_at=period.begins,
        ends_at=period.end(),
        kind="maintenance",
        agents=list(agents),
    )
    return _put(server, body, replace=replace)


def ls(*, output: OutputOptions = TABLE_OUTPUT) -> int:
    """List bookings and maintenance windows.

    For example:
      sokovan booking ls
    """
    return list_all(output, _columns(), lambda client: client.agents.bookings.list())


def show(name: str, /, *, output: OutputOptions = TABLE_OUTPUT) -> int:
    """Show a booking.

    For example:
      sokovan booking show demo

    Parameters
    ----------
    name
        Name of the booking.
    """
    return show_named(output, _columns(), lambda client: client.agents.bookings.get(name))


def rm(name: str, /, *, yes: Yes = False, server: ServerOptions = DEFAULT_SERVER) -> int:
    """Remove a booking; its agents are free for all.

    Sessions that name it and wait no longer start.

    For example:
      sokovan booking rm demo --yes

    Parameters
    ----------
    name
        Name of the booking.
    """
    return remove_named(
        server,
        f"booking {name}",
        yes=yes,
        read=lambda client: client.agents.bookings.get(name),
        delete=lambda client: client.agents.bookings.delete(name),
        removed_with=lambda _client: (),
    )


def _put(server: ActionOptions, body: BookingBody, *, replace: bool) -> int:
    with server.client() as client:
        bookings = client.agents.bookings
        try:
            kept = bookings.put(body) if replace else bookings.create(body)
        except Refused as problem:
            if problem.code != ALREADY_EXISTS:
                raise
            hint = "choose another name, or change it with --replace"
            raise InvalidSetting(f"there is a {body.kind} {body.name} already", hint=hint) from None
    server.report(kept, f"{kept.kind} {kept.name} from {kept.starts_at} to {kept.ends_at}")
    return OK


def _columns() -> list[Column[BookingBody]]:
    return [
        Column("name", lambda one: one.name),
        Column("kind", lambda one: one.kind),
        Column("from", lambda one: one.starts_at),
        Column("to", lambda one: one.ends_at),
        Column("agents", lambda one: one.hypernode or ", ".join(one.agents)),
        Column("for", _permitted),
        Column("unused", lambda one: formatting.duration(one.release_unused_s), wide=True),
    ]


def _permitted(one: BookingBody) -> str:
    """`user:ana, group:nlp`."""
    kinds = (("user", one.users), ("group", one.groups), ("queue", one.queues))
    return ", ".join(f"{kind}:{name}" for kind, names in kinds for name in names) or formatting.NONE
