"""`sokovan plan`: what would become of a session."""

from __future__ import annotations

from sokovan.cli import formatting
from sokovan.cli.commands.options import TABLE_OUTPUT, OutputOptions
from sokovan.cli.commands.sessions.session_options import NO_FLAGS, SessionFlags
from sokovan.cli.commands.sessions.session_tables import check_table, funnel_line
from sokovan.cli.exit_codes import OK, WAITING
from sokovan.cli.output import print_data
from sokovan.cli.rendering import show_one
from sokovan.wire.api.explanations import PlanView

_PLACEMENTS_SHOWN = 16


def plan(
    *command: str,
    wish: SessionFlags = NO_FLAGS,
    shown: OutputOptions = TABLE_OUTPUT,
) -> int:
    """Say what would become of a session, without asking for it.

    The real scheduler decides, on what there is now; nothing is stored. Exit status: 0 it would start or wait, 6 it
    could never be placed.

    For example:
      sokovan plan --size 4 --gpus 8 --topology hard:rack -- python train.py
      sokovan plan -f train.sokovan.yaml --json

    Parameters
    ----------
    command
        The command and its words, after --.
    """
    form = shown.form()
    plans: list[PlanView] = []
    with shown.client() as client:
        for one in wish.asked(command, shown.settings()):
            with one.shown():
                plans.append(client.sessions.plan(one.body))
    for view in plans:
        if form.is_table:
            for line in told(view):
                print_data(line)
        else:
            show_one(view, [("would_start", view.would_start), ("code", view.code)], form, name=view.code)
    return WAITING if any(view.would_start == "never" for view in plans) else OK


def told(view: PlanView) -> list[str]:
    """A plan as people read it."""
    kernels = "1 kernel" if view.size == 1 else f"{view.size} kernels"
    when = {"now": "would start now", "waits": "would wait", "never": "could never start"}
    asked = f"{kernels}, {formatting.amounts(view.slots)} in all"
    lines = [
        f"{asked}  queue {view.queue}  pool {view.scaling_group}  image {view.image}",
        f"  {when.get(view.would_start, view.would_start)}: {view.summary} [{view.code}]",
    ]
    lines.extend(f"  kernel {one.kernel} on {one.agent}" for one in view.placements[:_PLACEMENTS_SHOWN])
    if len(view.placements) > _PLACEMENTS_SHOWN:
        lines.append(f"  ... and {len(view.placements) - _PLACEMENTS_SHOWN} more")
    if view.funnel:
        lines.append(funnel_line(view.funnel))
    failed = [check for check in view.checks if check.result != "ok"]
    if failed:
        lines.extend(check_table(failed))
    return lines
