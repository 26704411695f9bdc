"""`sokovan plan`: dry run of a session."""

from __future__ import annotations

from sokovan.cli import formatting
from sokovan.cli.commands.options import TABLE_OUTPUT, OutputOptions
from sokovan.cli.commands.sessions.session_options import NO_FLAGS, SessionFlags
from sokovan.cli.commands.sessions.session_tables import check_table, funnel_line, victim_lines
from sokovan.cli.commands.uploads import folder_of, with_absolute_workdir
from sokovan.cli.exit_codes import OK, WAITING
from sokovan.cli.output import print_data
from sokovan.cli.rendering import show_one
from sokovan.wire.api.explanations import PlanView

_PLACEMENTS_SHOWN = 16
# Checks whose result is a choice, not only a pass.
_ALWAYS_SHOWN = frozenset({"scaling-group", "evicts"})


def plan(
    *command: str,
    flags: SessionFlags = NO_FLAGS,
    output: OutputOptions = TABLE_OUTPUT,
) -> int:
    """Show how a session would be scheduled (dry run).

    The server's scheduler decides on the current state of the cluster; nothing
    is stored. Exit codes: 0 it would start or wait, 6 it could never be placed.

    For example:
      sokovan plan --size 4 --gpus 8 --topology hard:rack -- python train.py
      sokovan plan -f train.sokovan.yaml --json

    Parameters
    ----------
    command
        Command and arguments, after --.
    """
    fmt = output.format()
    plans: list[PlanView] = []
    with output.client() as client:
        for request in flags.requests(command, output.settings()):
            with request.locating_errors():
                plans.append(client.sessions.plan(with_absolute_workdir(request.body, folder_of(flags.file))))
    for view in plans:
        if fmt.is_table:
            for line in plan_lines(view):
                print_data(line)
        else:
            show_one(view, [("would_start", view.would_start), ("code", view.code)], fmt, name=view.code)
    return WAITING if any(view.would_start == "never" for view in plans) else OK


def plan_lines(view: PlanView) -> list[str]:
    """A plan as lines of text."""
    kernels = "1 kernel" if view.size == 1 else f"{view.size} kernels"
    when = {"now": "would start now", "waits": "would wait", "never": "could never start"}
    requested = f"{kernels}, {formatting.amounts(view.slots)} in total"
    lines = [
        f"{requested}  queue {view.queue}  scaling group {view.scaling_group}  image {view.image}",
        f"  {when.get(view.would_start, view.would_start)}: {view.summary} [{view.code}]",
    ]
    lines.extend(f"  kernel {one.kernel} on {one.agent}" for one in view.placements[:_PLACEMENTS_SHOWN])
    if len(view.placements) > _PLACEMENTS_SHOWN:
        lines.append(f"  ... and {len(view.placements) - _PLACEMENTS_SHOWN} more")
    if view.funnel:
        lines.append(funnel_line(view.funnel))
    shown = [check for check in view.checks if check.result != "ok" or check.name in _ALWAYS_SHOWN]
    if shown:
        lines.extend(check_table(shown))
    return [*lines, *victim_lines(view.evicts)]
