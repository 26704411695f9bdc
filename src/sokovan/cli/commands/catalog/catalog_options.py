"""Options of `set`: how their texts are read and change a stored object.

An option that is omitted changes nothing. An empty text restores the default. Mappings,
such as amounts by slot, are merged: `gpu=8` sets an entry, `gpu=` removes it, and an empty
text removes the stored ones.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any

from sokovan.cli.commands.options import name_values
from sokovan.sdk.core.durations import seconds
from sokovan.sdk.errors import InvalidSetting
from sokovan.sdk.session_request import slots_of
from sokovan.wire.api.bodies import Amount


class Cleared:
    """The value of an option that was given as an empty text."""


@dataclass(frozen=True, slots=True)
class Entries:
    """Entries to merge into a stored mapping; an empty one is removed."""

    given: Mapping[str, Any]
    replaces: bool = False

    def merged_into(self, stored: Mapping[str, Any] | None) -> dict[str, Any]:
        """The mapping after the change."""
        kept = {} if self.replaces else {name: one for name, one in (stored or {}).items() if name not in self.given}
        return {**kept, **{name: value for name, value in self.given.items() if value not in ("", None)}}


@dataclass(frozen=True, slots=True)
class CatalogOption:
    """An option of `set`, and the field of the wire type that it sets."""

    name: str
    help: str
    field: str
    type: Any = str
    default: Any = None
    negative: str | tuple[str, ...] = ()
    repeatable: bool = False
    positional: bool = False
    # Reads the given texts; the second argument names the option in error messages.
    read: Callable[[Any, str], Any] | None = None
    # Whether an empty text restores the default.
    clearable: bool = True

    @property
    def flag(self) -> str:
        """The option in error messages."""
        return "quota set" if self.positional else f"--{self.name.replace('_', '-')}"

    def value(self, given: Any) -> Any:
        """The change of the field; None if it was not given. Raises InvalidSetting."""
        if given is None or given == ():
            return None
        if given in ("", ("",)):
            if not self.clearable:
                raise InvalidSetting(f"{self.flag} is empty", hint="give a name, or omit it")
            return Cleared()
        if not self.repeatable and not self.positional:
            return given if self.read is None else self.read(given, self.flag)
        texts = [text for text in given if text]
        if self.read is None:
            return texts
        found = self.read(texts, self.flag)
        return Entries(found, replaces=len(texts) < len(given)) if isinstance(found, Mapping) else found


def changed_field(body: Any, field: str, change: Any) -> Any:
    """The value of a field of a stored or new object after a change."""
    match change:
        case Cleared():
            return _default(type(body), field)
        case Entries():
            return change.merged_into(getattr(body, field))
        case _:
            return change


def _default(body: type[Any], field: str) -> Any:
    found = next(one for one in fields(body) if one.name == field)
    return found.default if found.default_factory is MISSING else found.default_factory()


def read_amounts(texts: Sequence[str], option: str) -> dict[str, Amount]:
    """Read amounts such as gpu=64 by slot. Raises InvalidSetting."""
    return _by_slot(name_values(texts, option=option, example="gpu=64"), option)


def read_size(text: str, option: str) -> int:
    """Read a number of bytes: 1048576, 20GiB. Raises InvalidSetting."""
    digits = text.rstrip("KMGTiB")
    unit = _SIZES.get(text[len(digits) :])
    if unit is None or not digits.isascii() or not digits.isdigit() or len(digits) > _DIGITS_MAX:
        raise InvalidSetting(f"{option} {text[:80]!r} is not a size", hint=f"use {option} 20GiB")
    return int(digits) * unit


def read_whole(text: str, option: str) -> int:
    """Read a whole number. Raises InvalidSetting."""
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or len(digits) > _DIGITS_MAX:
        raise InvalidSetting(f"{option} {text[:80]!r} is not a whole number", hint=f"use {option} 3")
    return int(text)


def read_seconds(text: str, option: str) -> int:
    """Read a duration such as 2h in seconds. Raises InvalidSetting."""
    return int(seconds(text, what=option))


def read_scheduler_options(texts: Sequence[str], option: str) -> dict[str, Any]:
    """Read NAME=VALUE, where the value is JSON or a text. Raises InvalidSetting."""
    given = name_values(texts, option=option, example="agent_selector=dispersed")
    return {name: _json_or_text(text) for name, text in given.items()}


def read_slot_weights(texts: Sequence[str], option: str) -> dict[str, Amount]:
    """Read whole numbers by slot. Raises InvalidSetting."""
    given = name_values(texts, option=option, example="gpu=60")
    return _by_slot(
        {slot: read_whole(text, f"{option} {slot}") if text else "" for slot, text in given.items()}, option
    )


# Numbers of more digits exceed every bound; the server says which one holds.
# Units of sizes in bytes.
_SIZES = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_DIGITS_MAX = 40


def _by_slot(given: Mapping[str, Amount], option: str) -> dict[str, Amount]:
    found = slots_of(given)
    if len(found) < len(given):
        raise InvalidSetting(f"{option} sets a slot twice, under two names", hint="gpu is a name of cuda.device")
    return found


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_number)
    except ValueError:
        return text


def _no_number(text: str) -> Any:
    """NaN and Infinity are not JSON."""
    raise ValueError(text)
