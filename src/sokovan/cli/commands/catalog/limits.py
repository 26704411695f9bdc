"""`sokovan limits`: what owners hold beside what their quotas allow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sokovan.cli.commands.options import TABLE_OUTPUT, OutputOptions
from sokovan.cli.exit_codes import OK
from sokovan.cli.formatting import amount
from sokovan.cli.rendering import Column, show_all
from sokovan.sdk.errors import InvalidSetting
from sokovan.wire.api.tenancy import OwnerLimitsView

KINDS = ("domain", "group", "user", "keypair")


@dataclass(frozen=True, slots=True)
class LimitLine:
    """One limit of an owner, as text."""

    owner: str
    quota: str
    of: str
    used: str
    limit: str


COLUMNS: list[Column[LimitLine]] = [
    Column("owner", lambda line: line.owner),
    Column("quota", lambda line: line.quota),
    Column("of", lambda line: line.of),
    Column("used", lambda line: line.used),
    Column("limit", lambda line: line.limit),
]


def limits(*, kind: str | None = None, output: OutputOptions = TABLE_OUTPUT) -> int:
    """Show what owners hold now, and the most they may hold.

    One line for each limited slot, and one for sessions, of each domain, group,
    user and key that has a quota and that you may see.

    For example:
      sokovan limits
      sokovan limits --kind user --json

    Parameters
    ----------
    kind
        Only of these owners: domain, group, user or keypair.
    """
    if kind is not None and kind not in KINDS:
        raise InvalidSetting(f"--kind {kind[:60]!r} is not a kind of owner", hint=f"use one of {', '.join(KINDS)}")
    fmt = output.format()
    with output.client() as client:
        found = list(client.usage.limits(kind=kind))
    if fmt.name in {"json", "jsonl", "yaml"}:
        show_all(found, [], fmt, name=lambda one: f"{one.kind} {one.name}")
        return OK
    show_all([line for one in found for line in lines_of(one)], COLUMNS, fmt, name=lambda line: line.owner)
    return OK


def lines_of(found: OwnerLimitsView) -> Iterator[LimitLine]:
    """A line for each limit of an owner."""
    owner = f"{found.kind} {found.name}"
    for slot, limit in sorted(found.limits.items()):
        yield LimitLine(owner, found.policy, slot, amount(slot, found.used.get(slot, 0)), amount(slot, limit))
    if found.sessions_max is not None:
        yield LimitLine(owner, found.policy, "sessions", str(found.sessions), str(found.sessions_max))
