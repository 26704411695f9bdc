"""`sokovan version`: of the client, and of the server if one answers."""

from __future__ import annotations

from dataclasses import dataclass

from sokovan import __version__
from sokovan.cli.commands.options import TABLE_OUTPUT, OutputOptions
from sokovan.cli.exit_codes import OK
from sokovan.cli.rendering import show_one
from sokovan.sdk.errors import ClientProblem

PATIENCE_S = 2.0


@dataclass(frozen=True, slots=True)
class Versions:
    """Who has which version; `server_note` says why one is not known."""

    client: str
    server: str = ""
    url: str = ""
    server_note: str = ""


def version(*, shown: OutputOptions = TABLE_OUTPUT) -> int:
    """Show the versions of client and server.

    A server that does not answer is no failure.

    For example:
      sokovan version
      sokovan version --json
    """
    form = shown.form()
    found = _found(shown)
    facts = [("client", found.client), ("server", found.server or f"unknown: {found.server_note}")]
    show_one(found, facts, form, name=found.client)
    return OK


def _found(shown: OutputOptions) -> Versions:
    try:
        with shown.client(timeout_s=PATIENCE_S) as client:
            return Versions(__version__, client.health().version, client.endpoint.url)
    except ClientProblem as problem:
        return Versions(__version__, server_note=problem.message)
