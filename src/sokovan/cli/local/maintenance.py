"""Commands for operators: heavy parts load where they are used."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from sokovan.cli.commands.options import Flag
from sokovan.cli.exit_codes import USAGE
from sokovan.cli.output import print_error
from sokovan.domain.errors import InvalidInput


def simulate(
    *files: Annotated[str, Parameter(negative=())],
    json: Flag = False,
    explain: Flag = False,
    snapshot: Flag = False,
    save: str | None = None,
) -> int:
    """Try a policy before you apply it, on scenario files.

    A scenario is a small cluster, the work offered to it, and what must be decided. Exit status: 0 every expectation
    holds, 1 one does not, 2 a file cannot be read.

    For example:
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
    from sokovan.cli.local.simulate import simulate as run  # noqa: PLC0415  # numpy and friends load only here

    if not files:
        print_error(InvalidInput("name at least one file", hint="see sokovan simulate --help"), json_too=json)
        return USAGE
    return run(list(files), json=json, explain=explain, snapshot=snapshot, save=save)


def audit(
    *,
    store: str | None = None,
    json: Flag = False,
    only: str | None = None,
) -> int:
    """Check that the store keeps its laws: nothing lost or doubled.

    Reads one state of the store and changes nothing. Exit status: 0 every law holds, 1 one is broken, 2 usage, 3 there
    is no such store, 5 it has another schema, 7 it cannot be reached.

    For example:
      sokovan audit                                        the store of the embedded server
      sokovan audit --store postgresql://db.example/sokovan
      sokovan audit --only I1,I7 --json

    Parameters
    ----------
    store
        The address of the store; otherwise SOKOVAN_STORE, otherwise the file of the embedded server.
    json
        Print one JSON document instead of lines.
    only
        The numbers of the laws to check, with commas; otherwise all.
    """
    from sokovan.cli.local.audit import audit as run  # noqa: PLC0415  # SQLAlchemy loads only here

    return run(store, json=json, only=only)


def upgrade(*, store: str | None = None, json: Flag = False) -> int:
    """Bring the store to the newest schema, in one step or not at all.

    Exit status: 0 it is there, 2 usage, 3 there is no such store, 5 it was written by a version that this one does not
    know, 7 it cannot be reached.

    For example:
      sokovan db upgrade --store postgresql://db.example/sokovan

    Parameters
    ----------
    store
        The address of the store; otherwise SOKOVAN_STORE, otherwise the file of the embedded server.
    json
        Print one JSON document instead of a line.
    """
    from sokovan.cli.local.db import upgrade as run  # noqa: PLC0415  # SQLAlchemy loads only here

    return run(store, json=json)


def check(*, store: str | None = None, json: Flag = False) -> int:
    """Say which schema the store has, and whether it is the newest.

    Exit status: 0 it is, 1 it is not, 2 usage, 3 there is no such store, 7 it cannot be reached.

    For example:
      sokovan db check --store postgresql://db.example/sokovan

    Parameters
    ----------
    store
        The address of the store; otherwise SOKOVAN_STORE, otherwise the file of the embedded server.
    json
        Print one JSON document instead of a line.
    """
    from sokovan.cli.local.db import check as run  # noqa: PLC0415  # SQLAlchemy loads only here

    return run(store, json=json)
