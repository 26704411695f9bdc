"""`sokovan version`: versions of the client and the server."""

from __future__ import annotations

from dataclasses import dataclass

from sokovan import __version__
from sokovan.cli.commands.options import TABLE_OUTPUT, OutputOptions
from sokovan.cli.exit_codes import OK
from sokovan.cli.rendering import show_one
from sokovan.sdk.errors import ClientProblem

TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True)
class Versions:
    """Client and server version; `server_note` says why the latter is unknown."""

    client: str
    server: str = ""
    url: str = ""
    server_note: str = ""


def version(*, output: OutputOptions = TABLE_OUTPUT) -> int:
    """Show client and server versions.

    An unreachable server is not an error.

    For example:
      sokovan version
      sokovan version --json
    """
    fmt = output.format()
    found = _versions(output)
    facts = [("client", found.client), ("server", found.server or f"unknown: {found.server_note}")]
    show_one(found, facts, fmt, name=found.client)
    return OK


def _versions(output: OutputOptions) -> Versions:
    try:
        with output.client(timeout_s=TIMEOUT_S) as client:
            return Versions(__version__, client.health().version, client.endpoint.url)
    except ClientProblem as problem:
        return Versions(__version__, server_note=problem.message)
