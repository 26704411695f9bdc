"""Generates the commands ls, show, set and rm of the catalogue nouns.

The command table refers to them as `queue_ls`, `queue_show`, `queue_set` and `queue_rm`.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from sokovan.cli.arguments.parameters import Parameter
from sokovan.cli.command_table import COMMANDS
from sokovan.cli.commands.catalog.catalog_actions import list_all, remove_named, show_named, stored_or_new
from sokovan.cli.commands.catalog.catalog_nouns import CATALOG, CatalogNoun
from sokovan.cli.commands.catalog.catalog_options import CatalogOption, changed_field
from sokovan.cli.commands.options import (
    DEFAULT_ACTION,
    DEFAULT_SERVER,
    TABLE_OUTPUT,
    ActionOptions,
    OutputOptions,
    ServerOptions,
    Yes,
)
from sokovan.cli.exit_codes import OK

if TYPE_CHECKING:
    from sokovan.sdk.sync.client import Client

Command = Callable[..., int]


def __getattr__(name: str) -> Command:
    """Generate the command `NOUN_VERB` when the parser imports it."""
    noun, _, verb = name.rpartition("_")
    row = CATALOG.get(noun.replace("_", "-"))
    if row is None or verb not in _GENERATORS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _GENERATORS[verb](row)


def _ls(row: CatalogNoun) -> Command:
    def ls(*, output: OutputOptions = TABLE_OUTPUT) -> int:
        return list_all(output, row.columns, lambda client: row.catalog(client).list())

    return _documented(ls, f"{row.noun} ls", row.details.get("ls", ""), parameters=[_OUTPUT], examples=[""])


def _show(row: CatalogNoun) -> Command:
    def show(name: str, /, *, output: OutputOptions = TABLE_OUTPUT, **given: Any) -> int:
        stored, selected = row.stored_name(name), _values(row.selectors, given)
        return show_named(
            output, row.columns, lambda client: row.catalog(client).get(stored, **selected), more=row.shown_with
        )

    parameters = [_name(row), *map(_option, row.selectors), _OUTPUT]
    return _documented(show, f"{row.noun} show", "", parameters=parameters, examples=row.shown_examples)


def _set(row: CatalogNoun) -> Command:
    def set_(name: str, /, *positional: str, server: ActionOptions = DEFAULT_ACTION, **given: Any) -> int:
        stored, selected = row.stored_name(name), _values(row.selectors, given)
        given |= {option.name: positional for option in row.options if option.positional}
        changes = {field: change for field, change in _values(row.options, given).items() if change is not None}

        def new() -> Any:
            domain = {"domain": changes.get("domain") or client.whoami().domain} if row.in_domain else {}
            return row.body(name=stored, **selected, **domain)

        with server.client() as client:
            if row.before_set is not None:
                row.before_set(client, name)
            catalog = row.catalog(client)
            body, is_new = stored_or_new(lambda: catalog.get(stored, **selected), new)
            given_fields = {field: changed_field(body, field, change) for field, change in changes.items()}
            kept = catalog.put(replace(body, **given_fields))
            if row.after_set is not None:
                row.after_set(client, name)
        server.report(kept, f"{row.title} {kept.name} {'created' if is_new else 'updated'}")
        return OK

    parameters = [_name(row), *map(_option, [*row.selectors, *row.options]), _ACTION]
    return _documented(set_, f"{row.noun} set", row.details["set"], parameters=parameters, examples=row.set_examples)


def _rm(row: CatalogNoun) -> Command:
    def rm(name: str, /, *, yes: bool = False, server: ServerOptions = DEFAULT_SERVER, **given: Any) -> int:
        stored, selected = row.stored_name(name), _values(row.selectors, given)

        def delete(client: Client) -> None:
            row.catalog(client).delete(stored, **selected)

        return remove_named(
            server,
            f"{row.title} {name}",
            yes=yes,
            read=lambda client: row.catalog(client).get(stored, **selected),
            delete=delete,
            removed_with=lambda client: () if row.removed_with is None else row.removed_with(client, stored),
        )

    parameters = [_name(row), *map(_option, row.selectors), _YES, _SERVER]
    return _documented(
        rm,
        f"{row.noun} rm",
        row.details.get("rm", ""),
        parameters=parameters,
        examples=[f"{row.removed_example} --yes"],
    )


_GENERATORS: Mapping[str, Callable[[CatalogNoun], Command]] = {"ls": _ls, "show": _show, "set": _set, "rm": _rm}


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


_OUTPUT = _keyword("output", OutputOptions, TABLE_OUTPUT)
_ACTION = _keyword("server", ActionOptions, DEFAULT_ACTION)
_SERVER = _keyword("server", ServerOptions, DEFAULT_SERVER)
_YES = _keyword("yes", Yes, default=False)


def _name(row: CatalogNoun) -> inspect.Parameter:
    text = row.name_help or f"Name of the {row.title}."
    return inspect.Parameter("name", inspect.Parameter.POSITIONAL_ONLY, annotation=Annotated[str, Parameter(help=text)])


def _option(option: CatalogOption) -> inspect.Parameter:
    if option.positional:
        annotation = Annotated[str, Parameter(help=option.help)]
        return inspect.Parameter(option.name, inspect.Parameter.VAR_POSITIONAL, annotation=annotation)
    annotated = Parameter(help=option.help, negative=option.negative)
    if option.repeatable:
        return _keyword(option.name, Annotated[tuple[str, ...], annotated], ())
    return _keyword(option.name, Annotated[option.type | None, annotated], option.default)


def _values(options: Iterable[CatalogOption], given: Mapping[str, Any]) -> dict[str, Any]:
    """The changes of the options by wire field. Raises InvalidSetting."""
    return {option.field: option.value(given.get(option.name, option.default)) for option in options}


def _documented(
    function: Command, words: str, details: str, *, parameters: list[inspect.Parameter], examples: Iterable[str]
) -> Command:
    """Give a generated function the signature and the docstring that the parser reads."""
    lines = [COMMANDS[words][1], ""]
    if details:
        lines += [textwrap.fill(details, 80), ""]
    lines += ["For example:", *(f"  sokovan {words} {example}".rstrip() for example in examples)]
    ordered = sorted(parameters, key=lambda parameter: parameter.kind)
    function.__doc__ = "\n".join(lines)
    function.__signature__ = inspect.Signature(ordered, return_annotation=int)  # type: ignore[attr-defined]  # read by inspect
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in ordered} | {"return": int}
    return function
