"""`sokovan deployment events`: list and follow what happened to a deployment."""

from __future__ import annotations

from typing import Annotated

from sokovan.cli.arguments.parameters import Parameter
from sokovan.cli.commands.options import TABLE_OUTPUT, OutputOptions
from sokovan.cli.commands.sessions.session_tables import history_columns
from sokovan.cli.exit_codes import OK
from sokovan.cli.output import flush_output, print_data
from sokovan.cli.rendering import plain_line, show_all
from sokovan.sdk.environment import SystemEnvironment
from sokovan.sdk.errors import InvalidSetting
from sokovan.wire.api.sessions import HistoryLine

POLL_S = 0.5
_ENDED = "terminated"


def events(
    name: str,
    /,
    *,
    watch: Annotated[bool, Parameter(name=["--watch", "-w"], negative=())] = False,
    limit: int = 200,
    output: OutputOptions = TABLE_OUTPUT,
) -> int:
    """Show what happened to a deployment.

    Lists the last transitions of the deployment, its replicas, rollouts and
    route, with time, actor and reason.

    For example:
      sokovan deployment events qwen
      sokovan deployment events qwen --watch
      sokovan deployment events qwen --limit 1000 -o jsonl

    Parameters
    ----------
    name
        Deployment name or ID, or a unique prefix of one.
    watch
        Print further events as they come, until its end.
    limit
        Most events to show.
    """
    fmt = output.format()
    if watch and fmt.name not in {"table", "wide", "jsonl"}:
        raise InvalidSetting(f"--watch does not print {fmt.name}", hint="use -o table or -o jsonl")
    columns = history_columns(utc=output.utc)
    environment = SystemEnvironment()
    with output.client() as client:
        found = client.deployments.events(name, limit=limit)
        if not watch:
            show_all(found.lines, columns, fmt, name=lambda line: line.subject)
            return OK
        seen: set[tuple[str, int, int]] = set()
        while True:
            for line in found.lines:
                if _key(line) in seen:
                    continue
                cells = [column.cell(line) for column in columns if fmt.name == "wide" or not column.wide]
                print_data(plain_line(line) if fmt.name == "jsonl" else "  ".join(filter(None, cells)))
            flush_output()
            if any(line.subject == "deployment" and line.after == _ENDED for line in found.lines):
                return OK
            # Only what is still among the last events can come again.
            seen = {_key(line) for line in found.lines}
            environment.sleep(POLL_S)
            found = client.deployments.events(found.deployment, limit=limit)


def _key(line: HistoryLine) -> tuple[str, int, int]:
    return line.subject, line.sequence, line.times
