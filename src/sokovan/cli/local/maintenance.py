"""Commands for operators; heavy modules load when a command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from sokovan.cli.arguments.parameters import Parameter
from sokovan.cli.commands.options import Flag
from sokovan.cli.exit_codes import USAGE
from sokovan.cli.output import print_error
from sokovan.domain.errors import InvalidInput

StoreUrl = Annotated[str | None, Parameter(help="Database URL; default: that of sokovan up. [env: SOKOVAN_STORE]")]
AsJson = Annotated[bool, Parameter(negative=(), help="Print JSON instead of text.")]


def simulate(
    *files: Annotated[str, Parameter(negative=())],
    json: Flag = False,
    explain: Flag = False,
    snapshot: Flag = False,
    save: str | None = None,
) -> int:
    """Simulate scheduling on scenario files.

    A scenario describes a cluster, the sessions submitted to it, and the
    expected decisions. Exit codes: 0 all expectations hold, 1 one does not, 2 a
    file cannot be read.

    For example:
      sokovan simulate cluster.yaml                 which expectations hold
      sokovan simulate cluster.yaml --explain       the verdict of each session
      sokovan simulate --snapshot snapshot.json     the plan for a saved snapshot

    Parameters
    ----------
    files
        Scenario files (YAML), or snapshot files with --snapshot; - for stdin.
    json
        Print JSON instead of a table.
    explain
        Print each session's verdict: code, summary, funnel, checks.
    snapshot
        Replay saved snapshots and print the plan of each.
    save
        Folder to write each scenario's first snapshot to.
    """
    from sokovan.cli.local.simulate import simulate as run  # noqa: PLC0415  # numpy loads only here

    if not files:
        print_error(InvalidInput("no file given", hint="see sokovan simulate --help"), as_object=json)
        return USAGE
    return run(list(files), json=json, explain=explain, snapshot=snapshot, save=save)


def audit(
    *,
    store: StoreUrl = None,
    json: AsJson = False,
    only: str | None = None,
) -> int:
    """Check the invariants of the database.

    Reads one consistent snapshot and changes nothing. Exit codes: 0 all
    invariants hold, 1 one is violated, 2 usage error, 3 no such database, 5
    schema mismatch, 7 unreachable.

    For example:
      sokovan audit
      sokovan audit --store postgresql://db.example/sokovan
      sokovan audit --only I1,I7 --json

    Parameters
    ----------
    only
        Invariants to check, separated by commas; default: all.
    """
    from sokovan.cli.local.audit import audit as run  # noqa: PLC0415  # SQLAlchemy loads only here

    return run(store, json=json, only=only)


def upgrade(*, store: StoreUrl = None, json: AsJson = False) -> int:
    """Upgrade the database schema to the newest revision.

    The upgrade is one transaction. Exit codes: 0 the schema is current, 2 usage
    error, 3 no such database, 5 the schema is newer than this version, 7
    unreachable.

    For example:
      sokovan db upgrade --store postgresql://db.example/sokovan
    """
    from sokovan.cli.local.db import upgrade as run  # noqa: PLC0415  # SQLAlchemy loads only here

    return run(store, json=json)


def check(*, store: StoreUrl = None, json: AsJson = False) -> int:
    """Check whether the database schema is current.

    Exit codes: 0 it is current, 1 it is not, 2 usage error, 3 no such database,
    7 unreachable.

    For example:
      sokovan db check --store postgresql://db.example/sokovan
    """
    from sokovan.cli.local.db import check as run  # noqa: PLC0415  # SQLAlchemy loads only here

    return run(store, json=json)


def rotate_key(*, data: Annotated[Path | None, Parameter(help="Data folder of the server.")] = None) -> int:
    """Add a new key for secret variables.

    New sessions are encrypted with it; earlier keys still decrypt. The last 16
    keys are kept. A running server needs no restart. Exit codes: 0 a key was
    added, 1 the file cannot be read or written.

    For example:
      sokovan db rotate-key
      sokovan db rotate-key --data /srv/sokovan
    """
    from sokovan.cli.local.db import rotate_key as run  # noqa: PLC0415  # its modules load only here

    return run(data)
