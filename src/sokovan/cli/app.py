"""The commands, as the argument parser sees them.

Heavy parts load only where they are used.
"""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from sokovan import __version__
from sokovan.cli.output import complain
from sokovan.domain.errors import InvalidInput

app = App(
    name="sokovan",
    version=__version__,
    help="An orchestrator for AI compute.",
    help_format="plaintext",
)


@app.command
def simulate(
    *files: Annotated[str, Parameter(negative=())],
    json: Annotated[bool, Parameter(negative=())] = False,
    explain: Annotated[bool, Parameter(negative=())] = False,
    snapshot: Annotated[bool, Parameter(negative=())] = False,
    save: str | None = None,
) -> int:
    """Try a policy before you apply it: run scenario files through the core.

    A scenario is a small cluster, the work offered to it, and what must be decided. Exit status: 0 every expectation
    holds, 1 one does not, 2 a file cannot be read.

    Examples:
      sokovan simulate cluster.yaml                 which expectations hold
      sokovan simulate cluster.yaml --explain       why each session got what it got
      sokovan simulate --snapshot snapshot.json     the plan for a saved snapshot

    Parameters
    ----------
    files
        Scenario files (YAML), or snapshot files with --snapshot; - is standard input.
    json
        Print one JSON document instead of a table.
    explain
        Print the verdict of every session: code, sentence, funnel of agents, checks.
    snapshot
        The files are saved snapshots: replay each and print its plan.
    save
        A folder to write the snapshot of each scenario's first cycle to, for --snapshot.
    """
    from sokovan.cli.simulate import simulate as run  # noqa: PLC0415  # numpy and friends load only here

    if not files:
        complain(InvalidInput("name at least one file", hint="see sokovan simulate --help"), json_too=json)
        return 2
    return run(list(files), json=json, explain=explain, snapshot=snapshot, save=save)
