"""`sokovan what-if`: what changes of the cluster would do."""

from __future__ import annotations

from typing import Annotated

from sokovan.cli.arguments.parameters import Parameter
from sokovan.cli.commands.options import TABLE_OUTPUT, OutputOptions
from sokovan.cli.exit_codes import OK
from sokovan.cli.formatting import NONE, amount
from sokovan.cli.output import print_data
from sokovan.cli.rendering import Column, show_all
from sokovan.sdk.errors import InvalidSetting
from sokovan.wire.api.fleet import WhatIfBody, WhatIfPlanView, WhatIfSessionView, WhatIfView

COLUMNS: list[Column[WhatIfSessionView]] = [
    Column("session", lambda one: one.name),
    Column("user", lambda one: one.user),
    Column("queue", lambda one: one.queue),
    Column("before", lambda one: one.before),
    Column("after", lambda one: one.after),
]


def what_if(
    *,
    drain: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    weight: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    add: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    scaling_group: str | None = None,
    output: OutputOptions = TABLE_OUTPUT,
) -> int:
    """Show what changes of the cluster would do.

    Compares the next scheduling cycle as it is with one after the changes: how
    many sessions start, wait and evict, and whose verdict differs. Nothing is
    changed. For administrators.

    For example:
      sokovan what-if --drain gpu-7
      sokovan what-if --weight research=3 --weight teaching=1
      sokovan what-if --add gpu-7=8 --json

    Parameters
    ----------
    drain
        Drain this agent. Repeatable.
    weight
        Give a queue this weight: QUEUE=WEIGHT. Repeatable.
    add
        Add machines like an agent: AGENT=COUNT. Repeatable.
    scaling_group
        In this scaling group; by default in the default one.
    """
    if not (drain or weight or add):
        raise InvalidSetting("no change is given", hint="add --drain, --weight or --add")
    fmt = output.format()
    body = WhatIfBody(
        drain=list(drain),
        weights=_numbers(weight, "--weight"),
        add=_numbers(add, "--add"),
        scaling_group=scaling_group,
    )
    with output.client() as client:
        found = client.agents.what_if(body)
    if fmt.is_table:
        print_data(f"now:   {_plan_text(found.before)}")
        print_data(f"after: {_plan_text(found.after)}")
        for line in _share_lines(found):
            print_data(line)
        if not found.sessions:
            return OK
    show_all(found.sessions, COLUMNS, fmt, name=lambda one: one.name)
    return OK


def _plan_text(plan: WhatIfPlanView) -> str:
    return f"{plan.starts} start, {plan.waits} wait, {plan.evicts} kernels are evicted"


def _share_lines(found: WhatIfView) -> list[str]:
    def text(slot: str, value: int | None) -> str:
        return NONE if value is None else amount(slot, value)

    return [
        f"queue {one.queue} deserves {text(one.slot, one.after)} {one.slot} instead of {text(one.slot, one.before)}"
        for one in found.shares
        if text(one.slot, one.after) != text(one.slot, one.before)
    ]


def _numbers(texts: tuple[str, ...], option: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for text in texts:
        name, _, number = text.rpartition("=")
        if not name or not (number.isascii() and number.isdigit()):
            raise InvalidSetting(f"{option} {text[:60]!r} is not NAME=NUMBER", hint=f"write {option} name=2")
        found[name] = int(number)
    return found
