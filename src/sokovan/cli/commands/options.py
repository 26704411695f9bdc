"""Options that many commands share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter

from sokovan.cli.output import as_json, print_data, print_status
from sokovan.cli.rendering import OutputFormat, output_format, plain
from sokovan.sdk.settings import ClientSettings, resolve

if TYPE_CHECKING:
    from sokovan.sdk.sync.client import Client

COMMON = Group("Common options", sort_key=100)
Flag = Annotated[bool, Parameter(negative=())]
Yes = Annotated[bool, Parameter(name=["--yes", "-y"], negative=(), help="Do not ask.")]


@Parameter(name="*", group=COMMON)
@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """Which server is meant."""

    context: Annotated[str | None, Parameter(help="The context to use; see sokovan context ls.")] = None
    url: Annotated[str | None, Parameter(help="The address of the server; its key comes from SOKOVAN_TOKEN.")] = None

    def settings(self) -> ClientSettings:
        """What this client goes by, with these flags."""
        return resolve({"context": self.context, "url": self.url})

    def client(self, *, timeout_s: float = 30.0) -> Client:
        """The client for the server. Raises NotLoggedIn, InvalidSetting."""
        from sokovan.sdk.sync.client import Client  # noqa: PLC0415  # the HTTP client loads only here

        return Client(self.url, context=self.context, timeout_s=timeout_s)


@Parameter(name="*", group=COMMON)
@dataclass(frozen=True, slots=True, kw_only=True)
class OutputOptions(ServerOptions):
    """Which server is meant, and how to print what it says."""

    output: Annotated[
        str | None,
        Parameter(name=["--output", "-o"], help="table, wide, json, jsonl, yaml, csv or name; or SOKOVAN_OUTPUT."),
    ] = None
    json: Annotated[bool, Parameter(negative=(), help="The same as -o json.")] = False
    columns: Annotated[str | None, Parameter(help="Only these columns, with commas.")] = None
    utc: Annotated[bool, Parameter(negative=(), help="Times as they are, not how long ago.")] = False

    def form(self) -> OutputFormat:
        """How to print. Raises InvalidSetting."""
        asked = "json" if self.json else self.output or self.settings()["output"] or "table"
        return output_format(asked, self.columns)


@Parameter(name="*", group=COMMON)
@dataclass(frozen=True, slots=True, kw_only=True)
class ActionOptions(ServerOptions):
    """Which server is meant, and for whom to say what came of it."""

    json: Annotated[bool, Parameter(negative=(), help="Print what came of it as JSON.")] = False

    def tell(self, item: object, line: str) -> None:
        """The object itself for programs; a line of talk for people."""
        if self.json:
            print_data(as_json(plain(item)))
        else:
            print_status(line)


DEFAULT_SERVER = ServerOptions()
DEFAULT_ACTION = ActionOptions()
TABLE_OUTPUT = OutputOptions()
