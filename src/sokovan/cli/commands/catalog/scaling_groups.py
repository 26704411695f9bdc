"""`sokovan scaling-group`: pools of machines that are scheduled together."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated, Any

from cyclopts import Parameter

from sokovan.cli.commands.catalog.catalog import changed, list_all, remove_named, show_named, tell_changed
from sokovan.cli.commands.options import (
    DEFAULT_ACTION,
    DEFAULT_SERVER,
    TABLE_OUTPUT,
    ActionOptions,
    OutputOptions,
    ServerOptions,
    Yes,
)
from sokovan.cli.formatting import NONE, or_none
from sokovan.cli.rendering import Column
from sokovan.sdk.core.durations import seconds
from sokovan.sdk.errors import InvalidSetting
from sokovan.wire.api.fleet import ScalingGroupBody

COLUMNS: list[Column[ScalingGroupBody]] = [
    Column("name", lambda group: group.name),
    Column("scheduler", lambda group: group.scheduler),
    Column("slots", lambda group: ", ".join(group.known_slots) or NONE),
    Column("pending_timeout_s", lambda group: or_none(group.pending_timeout_s)),
    Column("options", lambda group: json.dumps(group.scheduler_opts) if group.scheduler_opts else NONE),
]


def ls(*, shown: OutputOptions = TABLE_OUTPUT) -> int:
    """List pools of machines.

    For example:
      sokovan scaling-group ls
    """
    return list_all(shown, COLUMNS, lambda client: client.scaling_groups.list())


def show(name: str, /, *, shown: OutputOptions = TABLE_OUTPUT) -> int:
    """Show one pool.

    For example:
      sokovan scaling-group show default

    Parameters
    ----------
    name
        Its name.
    """
    return show_named(shown, COLUMNS, lambda client: client.scaling_groups.get(name))


def change(
    name: str,
    /,
    *,
    scheduler: str | None = None,
    slot: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    option: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    pending_timeout: str | None = None,
    server: ActionOptions = DEFAULT_ACTION,
) -> int:
    """Make a pool, or change one.

    What is not said stays as it is.

    For example:
      sokovan scaling-group set default --scheduler drf
      sokovan scaling-group set gpu --slot cpu --slot mem --slot cuda.device --pending-timeout 2h
      sokovan scaling-group set gpu --option agent_selector=dispersed

    Parameters
    ----------
    name
        Its name.
    scheduler
        The sequencer: fifo, lifo, drf, fair-share.
    slot
        A slot that its machines have. May be given repeatedly; together they replace those there are.
    option
        An option of the scheduler: NAME=VALUE, the value as JSON or as text. May be given repeatedly.
    pending_timeout
        After how long a waiting session is given up: 2h.
    """
    options = dict(_option(text) for text in option)
    timeout_s = None if pending_timeout is None else int(seconds(pending_timeout, what="--pending-timeout"))
    said: dict[str, Any] = {
        "scheduler": scheduler,
        "known_slots": list(slot) or None,
        "pending_timeout_s": timeout_s,
    }
    with server.client() as client:
        body, is_new = changed(lambda: client.scaling_groups.get(name), lambda: ScalingGroupBody(name=name), said)
        if options:
            body = replace(body, scheduler_opts={**body.scheduler_opts, **options})
        kept = client.scaling_groups.put(body)
    return tell_changed(server, "scaling group", kept, is_new=is_new)


def remove(name: str, /, *, yes: Yes = False, server: ServerOptions = DEFAULT_SERVER) -> int:
    """Remove a pool.

    For example:
      sokovan scaling-group rm gpu --yes

    Parameters
    ----------
    name
        Its name.
    """
    return remove_named(
        server,
        "scaling group",
        name,
        yes=yes,
        look=lambda client: client.scaling_groups.get(name),
        act=lambda client: client.scaling_groups.delete(name),
    )


def _option(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InvalidSetting(
            f"--option {text[:80]!r} is not NAME=VALUE", hint="write --option agent_selector=dispersed"
        )
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
