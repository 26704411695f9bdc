"""Options that many commands share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from sokovan.cli.arguments.parameters import OptionGroup, Parameter
from sokovan.cli.output import as_json, print_data, print_status
from sokovan.cli.rendering import OutputFormat, parse_output_format
from sokovan.sdk.errors import InvalidSetting
from sokovan.sdk.settings import ClientSettings, resolve
from sokovan.wire.plain_codec import plain

if TYPE_CHECKING:
    from sokovan.sdk.sync.client import Client

COMMON = OptionGroup("Common options", sort_key=100)
Flag = Annotated[bool, Parameter(negative=())]
Yes = Annotated[bool, Parameter(name=["--yes", "-y"], negative=(), help="Skip the confirmation prompt.")]


@Parameter(name="*", group=COMMON)
@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """Options that select the server."""

    context: Annotated[str | None, Parameter(help="Context to use; see sokovan context ls.")] = None
    url: Annotated[str | None, Parameter(help="Server URL; the API key is read from SOKOVAN_TOKEN.")] = None

    def settings(self) -> ClientSettings:
        """The client's settings, with these options applied."""
        return resolve({"context": self.context, "url": self.url})

    def client(self, *, timeout_s: float = 30.0) -> Client:
        """Create a client for the server. Raises NotLoggedIn, InvalidSetting."""
        from sokovan.sdk.sync.client import Client  # noqa: PLC0415  # the HTTP client loads only here

        return Client(self.url, context=self.context, timeout_s=timeout_s)


@Parameter(name="*", group=COMMON)
@dataclass(frozen=True, slots=True, kw_only=True)
class OutputOptions(ServerOptions):
    """Options that select the server and the output format."""

    output: Annotated[
        str | None,
        Parameter(
            name=["--output", "-o"],
            help="Format: table, wide, json, jsonl, yaml, csv or name.",
        ),
    ] = None
    json: Annotated[bool, Parameter(negative=(), help="Same as -o json.")] = False
    columns: Annotated[str | None, Parameter(help="Columns to print, separated by commas.")] = None
    utc: Annotated[bool, Parameter(negative=(), help="Print UTC timestamps instead of ages.")] = False

    def format(self) -> OutputFormat:
        """The output format. Raises InvalidSetting."""
        name = "json" if self.json else self.output or self.settings()["output"] or "table"
        return parse_output_format(name, self.columns)


@Parameter(name="*", group=COMMON)
@dataclass(frozen=True, slots=True, kw_only=True)
class ActionOptions(ServerOptions):
    """Options of commands that change something and report the result."""

    json: Annotated[bool, Parameter(negative=(), help="Print the result as JSON.")] = False

    def report(self, item: object, line: str) -> None:
        """Print the object as JSON on standard output, or a line on standard error."""
        if self.json:
            print_data(as_json(plain(item)))
        else:
            print_status(line)


DEFAULT_SERVER = ServerOptions()
DEFAULT_ACTION = ActionOptions()
TABLE_OUTPUT = OutputOptions()


def name_values(texts: Sequence[str], *, option: str, example: str) -> dict[str, str]:
    """Read NAME=VALUE texts into a mapping. Raises InvalidSetting."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InvalidSetting(f"{option} {text[:80]!r} is not NAME=VALUE", hint=f"use {option} {example}")
        if name in found:
            raise InvalidSetting(f"{option} sets {name!r} twice", hint="set it once")
        found[name] = value
    return found
