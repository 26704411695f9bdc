"""What all nouns have in common that are read and written whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sokovan.cli.commands.options import ActionOptions, OutputOptions, ServerOptions
from sokovan.cli.commands.sessions.session_options import pairs
from sokovan.cli.exit_codes import OK
from sokovan.cli.formatting import NONE
from sokovan.cli.output import print_status
from sokovan.cli.prompts import confirm
from sokovan.cli.rendering import Column, show_all, show_one
from sokovan.sdk.errors import NotFound
from sokovan.sdk.session_request import slots_of
from sokovan.wire.api.bodies import Amount

if TYPE_CHECKING:
    from sokovan.sdk.sync.client import Client


class Named(Protocol):
    """Something with a name."""

    @property
    def name(self) -> str:
        """The name."""


T = TypeVar("T")
B = TypeVar("B", bound=Named)


def list_all(
    shown: OutputOptions, columns: Sequence[Column[T]], read: Callable[[Client], Iterable[T]], *, key: str = "name"
) -> int:
    """Print all of a kind; `key` is the field that a list of names shows."""
    form = shown.form()
    with shown.client() as client:
        show_all(read(client), columns, form, name=attrgetter(key))
    return OK


def show_named(shown: OutputOptions, columns: Sequence[Column[B]], read: Callable[[Client], B]) -> int:
    """Print one of a kind."""
    form = shown.form()
    with shown.client() as client:
        one = read(client)
    show_one(one, [(column.name, column.cell(one)) for column in columns], form, name=one.name)
    return OK


def changed(read: Callable[[], Any], new: Callable[[], Any], said: dict[str, Any]) -> tuple[Any, bool]:
    """What is there, or a new one, with what was said over it; and whether it is new."""
    given = {name: value for name, value in said.items() if value is not None}
    try:
        return replace(read(), **given), False
    except NotFound:
        return replace(new(), **given), True


def tell_changed(server: ActionOptions, what: str, item: Named, *, is_new: bool) -> int:
    """Say what was done."""
    server.tell(item, f"{what} {item.name} {'made' if is_new else 'changed'}")
    return OK


def remove_named(
    server: ServerOptions,
    what: str,
    name: str,
    *,
    yes: bool,
    look: Callable[[Client], object],
    act: Callable[[Client], None],
) -> int:
    """Remove one of a kind, once that was confirmed.

    Nobody is asked about what is not there.
    """
    with server.client() as client:
        if not yes:
            look(client)
        confirm(f"remove {what} {name}", yes=yes)
        act(client)
    print_status(f"{what} {name} removed")
    return OK


def read_amounts(texts: Sequence[str], *, option: str) -> dict[str, Amount] | None:
    """Amounts like gpu=64 by slot; None if nothing was said. Raises InvalidSetting."""
    return slots_of(dict(pairs(texts, option=option, example="gpu=64"))) if texts else None


def amounts_text(amounts: Any) -> str:
    """Amounts as they were written, or as the server keeps them."""
    return " ".join(f"{slot}={amount}" for slot, amount in sorted((amounts or {}).items())) or NONE
