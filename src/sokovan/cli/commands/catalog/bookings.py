"""`sokovan booking` and `sokovan agent maintenance`: agents kept for a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

from sokovan.cli import formatting
from sokovan.cli.arguments.parameters import Parameter
from sokovan.cli.commands.catalog.catalog_actions import ShownWith, list_all, remove_named, show_named
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
from sokovan.cli.output import print_data, print_status
from sokovan.cli.rendering import Column
from sokovan.sdk.core.durations import seconds
from sokovan.sdk.environment import SystemEnvironment
from sokovan.sdk.errors import ApiProblem, ClientProblem, InvalidSetting, Refused
from sokovan.wire.api.explanations import BookingEvictionsView, BookingEvictionView
from sokovan.wire.api.fleet import BookingBody

if TYPE_CHECKING:
    from sokovan.sdk.sync.client import Client

Texts = tuple[str, ...]
# The server's code for a name that is in use.
ALREADY_EXISTS = "already-exists"
# Its code for what only administrators may see.
FORBIDDEN = "forbidden"


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """When a booking begins and ends."""

    begins: Annotated[str, Parameter(name="--from", help="Beginning: 2030-01-31T18:00:00Z, or 30m from now.")]
    to: Annotated[str | None, Parameter(help="End, instead of --for: 2030-01-31T20:00:00Z.")] = None
    lasts: Annotated[str | None, Parameter(name="--for", help="Length: 2h.")] = None

    def times(self) -> tuple[str, str]:
        """The beginning and the end; of the end, the time or the length is given.

        Raises InvalidSetting.
        """
        if (self.to is None) == (self.lasts is None):
            raise InvalidSetting("a booking has an end or a length", hint="give one of --to and --for")
        begins = self._beginning()
        if self.to is not None:
            return begins, self.to
        try:
            start = datetime.fromisoformat(begins)
        except ValueError:
            problem = f"--from {begins[:60]!r} is not a time"
            raise InvalidSetting(problem, hint="use 2030-01-31T18:00:00Z, or 30m for so long from now") from None
        length_s = seconds(self.lasts or "", what="--for")
        try:
            return begins, utc_text(start + timedelta(seconds=length_s), "milliseconds")
        except OverflowError:
            raise InvalidSetting(f"--for {self.lasts}: it would end after the year 9999", hint="book less") from None

    def _beginning(self) -> str:
        if not self.begins.endswith(("s", "m", "h", "d")):
            return self.begins
        try:
            from_s = SystemEnvironment().wall_s() + seconds(self.begins, what="--from")
        except InvalidSetting:
            return self.begins
        try:
            return utc_text(datetime.fromtimestamp(0, UTC) + timedelta(seconds=from_s), "milliseconds")
        except OverflowError:
            problem = f"--from {self.begins}: it would begin after the year 9999"
            raise InvalidSetting(problem, hint="use 2030-01-31T18:00:00Z, or 30m for so long from now") from None


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


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Putting:
    """How a booking is stored, and whether its agents are lent before."""

    return_within: Annotated[str | None, Parameter(help="Lend the agents before, for a return in this time: 1m.")] = (
        None
    )
    replace: Annotated[bool, Parameter(negative=(), help="Replace an existing booking of this name.")] = False
    dry_run: Annotated[bool, Parameter(negative=(), help="Show what it would evict, and book nothing.")] = False

    def return_s(self) -> int | None:
        """The time within which lent agents are back. Raises InvalidSetting."""
        return None if self.return_within is None else int(seconds(self.return_within, what="--return-within"))


PUTTING = Putting()


def create(
    name: str,
    /,
    *,
    period: Period,
    booked: Booked = NOTHING_BOOKED,
    putting: Putting = PUTTING,
    server: ActionOptions = DEFAULT_ACTION,
) -> int:
    """Book agents for a time.

    It is accepted only if all sessions on these agents end before it begins, or
    may be evicted by then: those are, with their whole grace. Until then others use
    the agents if they end in time, or borrow them. Sessions name it: run --booking.

    For example:
      FROM=2030-01-31T18:00:00Z
      sokovan booking create a --from $FROM --for 2h --agent gpu1 --user ana
      sokovan booking create b --from $FROM --for 4h --hypernode r1 --group nlp
      sokovan booking create c --from $FROM --for 4h --slot gpu=16 --queue prod
      sokovan booking create d --from 30m --for 4h --agent gpu2 --user ana --dry-run

    Parameters
    ----------
    name
        Name of the booking.
    """
    booked.require_one_choice()
    starts_at, ends_at = period.times()
    body = BookingBody(
        name=name,
        starts_at=starts_at,
        ends_at=ends_at,
        agents=list(booked.agent),
        hypernode=booked.hypernode,
        slots=read_amounts(booked.slot, "--slot") if booked.slot else None,
        users=list(booked.user),
        groups=list(booked.group),
        queues=list(booked.queue),
        release_unused_s=int(seconds(booked.release_unused, what="--release-unused")),
        return_s=putting.return_s(),
    )
    return _preview(server, body) if putting.dry_run else _put(server, body, replace=putting.replace)


def maintenance(
    *agents: str,
    period: Period,
    name: Annotated[str | None, Parameter(help="Name; default: maintenance-AGENT.")] = None,
    putting: Putting = PUTTING,
    server: ActionOptions = DEFAULT_ACTION,
) -> int:
    """Keep agents free of sessions for a time.

    Until it begins, sessions that end in time run there, or borrow the agents. It
    is accepted only if all sessions on these agents end before it begins, or may be
    evicted by then: those are, with their whole grace.

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
    starts_at, ends_at = period.times()
    body = BookingBody(
        name=name or f"maintenance-{agents[0]}",
        starts_at=starts_at,
        ends_at=ends_at,
        kind="maintenance",
        agents=list(agents),
        return_s=putting.return_s(),
    )
    return _preview(server, body) if putting.dry_run else _put(server, body, replace=putting.replace)


def ls(*, output: OutputOptions = TABLE_OUTPUT) -> int:
    """List bookings and maintenance windows.

    For example:
      sokovan booking ls
    """
    return list_all(output, _columns(), lambda client: client.agents.bookings.list())


def show(name: str, /, *, output: OutputOptions = TABLE_OUTPUT) -> int:
    """Show a booking.

    Administrators also see which sessions it evicts, and which it did.

    For example:
      sokovan booking show demo

    Parameters
    ----------
    name
        Name of the booking.
    """
    return show_named(output, _columns(), lambda client: client.agents.bookings.get(name), more=_evictions)


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


def _preview(server: ActionOptions, body: BookingBody) -> int:
    """Print whom a booking would evict."""
    with server.client() as client:
        found = client.agents.bookings.preview(body)
    if server.json:
        server.report(found, "")
        return OK
    print_data(f"{body.kind} {body.name} can be met, on {', '.join(found.agents)}")
    for _, text in eviction_lines(found) or [("", "no session is evicted for it")]:
        print_data(f"  {text}")
    return OK


def _evictions(client: Client, name: str) -> ShownWith:
    """Whom a booking evicts and did, for those who may see it."""
    try:
        found = client.agents.bookings.evictions(name)
    except ApiProblem as problem:
        if problem.code != FORBIDDEN:
            raise
        return ShownWith((), {})
    return ShownWith(eviction_lines(found), {"planned": found.planned, "evicted": found.evicted})


def eviction_lines(found: BookingEvictionsView) -> list[tuple[str, str]]:
    """Whom a booking evicts and did, one line each."""
    return [*_planned_lines(found.planned), *_evicted_lines(found.evicted)]


def _planned_lines(planned: Sequence[BookingEvictionView]) -> list[tuple[str, str]]:
    then = {"requeue": "it waits again", "shrink": "it goes on with fewer kernels", "end": "it ends"}
    lines = []
    for one in planned:
        when = f"notice at {one.notice_at}, ends by {one.ends_by}"
        lines.append(("evicts", f"{_kernels_of(one)}: {when}; {then[one.then]}"))
    return lines


def _evicted_lines(evicted: Sequence[BookingEvictionView]) -> list[tuple[str, str]]:
    lines = []
    for one in evicted:
        ended = f"ended at {one.ended_at}" if one.ended_at else f"ends by {one.ends_by}"
        lines.append(("evicted", f"{_kernels_of(one)}: {one.notice_at}, {ended}; {one.lost_slot_s} slot seconds lost"))
    return lines


def _kernels_of(one: BookingEvictionView) -> str:
    count = "all kernels" if one.whole else "1 kernel" if one.kernels == 1 else f"{one.kernels} kernels"
    return f"{count} of {one.name or one.session} of {one.user}"


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
        leaving = () if server.json else _leaving(client, kept.name)
    server.report(kept, f"{kept.kind} {kept.name} from {kept.starts_at} to {kept.ends_at}")
    for text in leaving:
        print_status(f"  {text}")
    return OK


def _leaving(client: Client, name: str) -> Sequence[str]:
    """Whom a booking that was made evicts; nothing if the server cannot say, as the booking stands."""
    try:
        found = client.agents.bookings.evictions(name)
    except ClientProblem:
        return ()
    # One that leaves at once may have its notice already.
    noticed = [one for one in found.evicted if not one.ended_at]
    return [text for _, text in (*_planned_lines(found.planned), *_evicted_lines(noticed))]


def _columns() -> list[Column[BookingBody]]:
    return [
        Column("name", lambda one: one.name),
        Column("kind", lambda one: one.kind),
        Column("from", lambda one: one.starts_at),
        Column("to", lambda one: one.ends_at),
        Column("agents", lambda one: one.hypernode or ", ".join(one.agents)),
        Column("for", _permitted),
        Column("unused", lambda one: formatting.duration(one.release_unused_s), wide=True),
        Column("return", lambda one: formatting.length(one.return_s), wide=True),
    ]


def _permitted(one: BookingBody) -> str:
    """`user:ana, group:nlp`."""
    kinds = (("user", one.users), ("group", one.groups), ("queue", one.queues))
    return ", ".join(f"{kind}:{name}" for kind, names in kinds for name in names) or formatting.NONE
