"""Actions on named objects that the API reads and writes whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from sokovan.cli.commands.options import OutputOptions, ServerOptions
from sokovan.cli.exit_codes import OK
from sokovan.cli.output import print_status
from sokovan.cli.prompts import confirm
from sokovan.cli.rendering import Column, show_all, show_one
from sokovan.sdk.errors import NotFound
from sokovan.wire.plain_codec import plain

if TYPE_CHECKING:
    from sokovan.sdk.sync.client import Client

T = TypeVar("T")


class ShownWith(NamedTuple):
    """Additions of `show`: lines of the table, and fields of the other formats."""

    lines: Sequence[tuple[str, str]]
    fields: Mapping[str, object]


def list_all(
    output: OutputOptions, columns: Sequence[Column[T]], read: Callable[[Client], Iterable[T]], *, key: str = "name"
) -> int:
    """Print all objects; `key` is the field that `-o name` prints."""
    fmt = output.format()
    with output.client() as client:
        show_all(read(client), columns, fmt, name=attrgetter(key))
    return OK


def show_named(
    output: OutputOptions,
    columns: Sequence[Column[Any]],
    read: Callable[[Client], Any],
    *,
    more: Callable[[Client, str], ShownWith] | None = None,
) -> int:
    """Print one object, one line per column, and what is shown with it."""
    fmt = output.format()
    with output.client() as client:
        found = read(client)
        lines, fields = ShownWith((), {}) if more is None else more(client, found.name)
    facts = [*((column.name, column.cell(found)) for column in columns), *lines]
    whole = {**plain(found), **plain(fields)} if fields and not fmt.is_table else found
    show_one(whole, facts, fmt, name=found.name)
    return OK


def stored_or_new(read: Callable[[], T], new: Callable[[], T]) -> tuple[T, bool]:
    """The stored object, or a new one; whether it is new."""
    try:
        return read(), False
    except NotFound:
        return new(), True


def remove_named(
    server: ServerOptions,
    title: str,
    *,
    yes: bool,
    read: Callable[[Client], object],
    delete: Callable[[Client], None],
    removed_with: Callable[[Client], Sequence[str]],
) -> int:
    """Remove an object after a confirmation; an absent object fails before the prompt."""
    with server.client() as client:
        if not yes:
            read(client)
        whole = ", ".join([title, *removed_with(client)])
        confirm(f"remove {whole}", yes=yes)
        delete(client)
    print_status(f"{whole} removed")
    return OK
