"""`sokovan usage`, `queue shares` and `audit-log`: what was used and done."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

from sokovan.cli.arguments.parameters import Parameter
from sokovan.cli.commands.catalog.catalog_actions import list_all
from sokovan.cli.commands.options import TABLE_OUTPUT, Flag, OutputOptions
from sokovan.cli.exit_codes import FAILED, OK
from sokovan.cli.formatting import NONE, age, amount, duration, utc_text
from sokovan.cli.rendering import Column, show_all, show_one
from sokovan.sdk.core.durations import seconds
from sokovan.sdk.environment import SystemEnvironment
from sokovan.sdk.errors import InvalidSetting
from sokovan.wire.api.fleet import QueueShareView
from sokovan.wire.api.system import AuditEntryView
from sokovan.wire.api.tenancy import UsageHistoryView, UsageView

ENTRIES_DEFAULT = 100


def _used(usage: UsageView) -> str:
    return ", ".join(f"{slot} {duration(used)}" for slot, used in sorted(usage.slots.items())) or NONE


COLUMNS: list[Column[UsageView]] = [
    Column("scaling_group", lambda usage: usage.scaling_group),
    Column("kind", lambda usage: usage.kind),
    Column("name", lambda usage: usage.name),
    Column("used", _used),
    Column("weighted", lambda usage: duration(usage.weighted)),
    Column("weight", lambda usage: str(usage.weight)),
    Column("share", lambda usage: duration(usage.share)),
]


SHARE_COLUMNS: list[Column[QueueShareView]] = [
    Column("queue", lambda share: share.queue),
    Column("slot", lambda share: share.slot),
    Column("in_use", lambda share: amount(share.slot, share.allocated)),
    Column("deserved", lambda share: NONE if share.deserved is None else amount(share.slot, share.deserved)),
    Column("guarantee", lambda share: amount(share.slot, share.guarantee)),
    Column("borrowed", lambda share: amount(share.slot, share.borrowed)),
    Column("waiting", lambda share: amount(share.slot, share.waiting)),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class UsagePoint:
    """Mean amount of a slot that a name held, from a time on."""

    at: str
    name: str
    slot: str
    used: int


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryOptions:
    """Options of usage over time."""

    last: Annotated[str | None, Parameter(help="Show what was held over this time: 24h, 7d.")] = None
    step: Annotated[str | None, Parameter(help="With --last: length of a step, such as 1h.")] = None
    by: Annotated[
        Literal["all", "queue", "user", "group", "scaling_group"],
        Parameter(show_choices=False, help="With --last: by queue, user, group or scaling_group."),
    ] = "all"
    slot: Annotated[str | None, Parameter(help="With --last: only this slot, such as cuda.device.")] = None
    of: Annotated[
        Literal["slots", "sessions", "gpus", "agents"],
        Parameter(show_choices=False, help="With --last: count sessions, their gpus, or agents."),
    ] = "slots"


NOW = HistoryOptions()
DAY_S = 86_400
# From ten seconds to thirty days; --last is divided into at most so many.
ROUND_STEPS_S = (10, 30, 60, 300, 600, 1_800, 3_600, 7_200, 21_600, 43_200, DAY_S, 7 * DAY_S, 30 * DAY_S)
STEPS_SHOWN = 24


def usage(*, scaling_group: str | None = None, over: HistoryOptions = NOW, output: OutputOptions = TABLE_OUTPUT) -> int:
    """Show past usage of users, groups and queues.

    USED is the time for which one core, one GiB of memory or one device was held,
    and halves with the half-life of the scaling group. SHARE is what fair-share
    compares: the weighted sum of USED, divided by WEIGHT; the smallest goes first.

    With --last, shows what sessions held on average in each step of that time.

    For example:
      sokovan usage
      sokovan usage --scaling-group gpu --json
      sokovan usage --last 24h --step 1h --by queue --slot cuda.device
      sokovan usage --last 24h --of sessions

    Parameters
    ----------
    scaling_group
        Only this scaling group.
    """
    if over.last is not None:
        return _over_time(over, over.last, scaling_group, output)
    if over != NOW:
        raise InvalidSetting("--step, --by, --slot and --of need --last", hint="add --last 24h")
    return list_all(output, COLUMNS, lambda client: client.usage.list(scaling_group=scaling_group))


def _over_time(over: HistoryOptions, last: str, scaling_group: str | None, output: OutputOptions) -> int:
    now = datetime.fromtimestamp(SystemEnvironment().wall_s(), UTC)
    length = seconds(last, what="--last")
    since = utc_text(now - timedelta(seconds=length))
    step = _readable_step(length) if over.step is None else int(seconds(over.step, what="--step"))
    columns: list[Column[UsagePoint]] = [
        Column("from", lambda point: point.at if output.utc else _local_text(point.at)),
        Column("slot", lambda point: point.slot),
        Column("used", lambda point: amount(point.slot, point.used)),
    ]
    if over.by != "all":
        columns.insert(1, Column(over.by, lambda point: point.name))
    with output.client() as client:
        found = client.usage.history(
            over.by,
            since=since,
            step=step,
            slot=over.slot,
            scaling_group=scaling_group,
            **({} if over.of == "slots" else {"of": over.of}),
        )
    show_all(_points(found), columns, output.format(), name=lambda point: point.at)
    return OK


def _readable_step(length: float) -> int:
    """The shortest round step with which a table has few lines."""
    return next((step for step in ROUND_STEPS_S if length / step <= STEPS_SHOWN), ROUND_STEPS_S[-1])


def _points(found: UsageHistoryView) -> Iterator[UsagePoint]:
    """Step by step, all names and slots of each."""
    begin = datetime.fromisoformat(found.since)
    for step in range(max((len(series.used) for series in found.items), default=0)):
        at = utc_text(begin + timedelta(seconds=step * found.step_s))
        for series in found.items:
            yield UsagePoint(at=at, name=series.name, slot=series.slot, used=series.used[step])


def _local_text(text: str) -> str:
    return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def shares(
    queue: str | None = None, /, *, scaling_group: str | None = None, output: OutputOptions = TABLE_OUTPUT
) -> int:
    """Show what queues use, deserve and borrow now.

    BORROWED is what a queue uses beyond what it deserves, WAITING what its waiting
    sessions request.

    For example:
      sokovan queue shares
      sokovan queue shares research --scaling-group gpu --json

    Parameters
    ----------
    queue
        Only this queue.
    scaling_group
        In this scaling group; by default in the default one.
    """
    return list_all(
        output,
        SHARE_COLUMNS,
        lambda client: client.usage.shares(queue=queue, scaling_group=scaling_group).items,
        key="queue",
    )


def audit_log(
    *,
    who: str | None = None,
    action: str | None = None,
    target: str | None = None,
    limit: int = ENTRIES_DEFAULT,
    check: Flag = False,
    output: OutputOptions = TABLE_OUTPUT,
) -> int:
    """Show who did what to which object.

    Newest first. Only administrators may see it. With --check, all entries are
    compared with their digests instead, and the exit code is 1 if one was changed.

    For example:
      sokovan audit-log
      sokovan audit-log --who ada --action session
      sokovan audit-log --target ddp --json
      sokovan audit-log --check

    Parameters
    ----------
    who
        Only actions of this user.
    action
        Only this action, such as session.stop, or all of session.
    target
        Only actions on the object with this ID.
    limit
        Maximum number of entries; default: 100.
    check
        Check that no entry was changed, removed or added.
    """
    if check:
        return _check_chain(output)
    if limit < 1:
        raise InvalidSetting(f"--limit {limit} is less than 1", hint="use 1 or more")
    now_s = SystemEnvironment().wall_s()
    columns: list[Column[AuditEntryView]] = [
        Column("number", lambda entry: str(entry.number)),
        Column("age", lambda entry: age(entry.at, now_s=now_s, utc=output.utc)),
        Column("who", lambda entry: entry.who),
        Column("action", lambda entry: entry.action),
        Column("target", lambda entry: entry.target),
        Column("outcome", lambda entry: entry.outcome),
        Column("request", lambda entry: entry.request_id, wide=True),
        Column("detail", lambda entry: ", ".join(f"{k}={v}" for k, v in sorted(entry.detail.items())), wide=True),
    ]
    fmt = output.format()
    with output.client() as client:
        entries = client.keys.audit_log(who=who, action=action, target=target, limit=limit)
        show_all(entries, columns, fmt, name=lambda entry: str(entry.number))
    return OK


def _check_chain(output: OutputOptions) -> int:
    fmt = output.format()
    with output.client() as client:
        found = client.keys.audit_chain()
    broken = NONE if found.first_broken is None else str(found.first_broken)
    facts = [("intact", "yes" if found.intact else "no"), ("first broken", broken), ("checked at", found.checked_at)]
    show_one(found, facts, fmt, name="audit log")
    return OK if found.intact else FAILED
