"""Parses and writes configuration as TOML.

The standard library cannot write TOML. The writer supports exactly the types of
ConfigValue, in the simplest form that parses back to an equal value.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator, Mapping

from sokovan.domain.errors import quoted
from sokovan.ports.config import ConfigValue, UnreadableConfig

WHOLE_LEAST, WHOLE_MOST = -(2**63), 2**63 - 1
DEPTH_MAX = 32

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_PLACE = re.compile(r"(?P<problem>.*) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)", re.DOTALL)
_SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_TO_ESCAPE = re.compile(r'["\\\x00-\x1f\x7f]')


def parsed(content: bytes, *, file: str) -> dict[str, ConfigValue]:
    """The values of a TOML file. Raises UnreadableConfig with file, line and column."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        raise _wrong(file, _place_after(before.decode("utf-8")), "a byte that is not UTF-8 text") from error
    try:
        return {name: checked(value, path=name, file=file) for name, value in tomllib.loads(text).items()}
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(file, text, str(error)) from error
    except RecursionError as error:
        raise UnreadableConfig(path=file, problem=f"values are nested more than {DEPTH_MAX} deep") from error


def checked(value: object, *, path: str, file: str = "", depth: int = 0) -> ConfigValue:
    """`value`, if both TOML and JSON can represent it. Raises UnreadableConfig."""
    if isinstance(value, bool | str):
        return _encodable(value, path, file)
    if isinstance(value, int):
        if WHOLE_LEAST <= value <= WHOLE_MOST:
            return value
        raise _unfit(path, file, f"{quoted(value)} has more than 64 bits")
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        raise _unfit(path, file, f"{value} is not a finite number")
    if depth >= DEPTH_MAX:
        raise _unfit(path.partition("[")[0], file, f"is nested more than {DEPTH_MAX} deep")
    if isinstance(value, list | tuple):
        return [checked(item, path=f"{path}[{at}]", file=file, depth=depth + 1) for at, item in enumerate(value)]
    if isinstance(value, Mapping):
        names = {name: _key(name, path, file) for name in value}
        return {
            name: checked(value[key], path=f"{path}.{name}", file=file, depth=depth + 1) for key, name in names.items()
        }
    raise _unfit(path, file, f"a {type(value).__name__} is not supported; write it as a quoted string")


def written(values: Mapping[str, ConfigValue]) -> str:
    """TOML text that parses back to `values`. Raises UnreadableConfig."""
    tree = {_key(name, "", ""): checked(value, path=name) for name, value in values.items()}
    return "\n".join(_table((), tree)).lstrip("\n")


def _table(path: tuple[str, ...], values: Mapping[str, ConfigValue]) -> Iterator[str]:
    """The lines of one table, with plain values before subtables, as TOML requires."""
    tables = {name: value for name, value in values.items() if isinstance(value, dict)}
    if path and (len(tables) < len(values) or not values):
        yield f"\n[{'.'.join(map(_key_text, path))}]"
    for name, value in values.items():
        if name not in tables:
            yield f"{_key_text(name)} = {_value_text(value)}"
    for name, table in tables.items():
        yield from _table((*path, name), table)
    if not path:
        yield ""


def _value_text(value: ConfigValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_value_text, value))}]"
    if isinstance(value, dict):
        pairs = [f"{_key_text(name)} = {_value_text(item)}" for name, item in value.items()]
        return f"{{{', '.join(pairs)}}}"
    return repr(value)


def _key_text(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _text(name)


def _text(value: str) -> str:
    escaped = _TO_ESCAPE.sub(lambda found: _SHORT_ESCAPES.get(found[0], f"\\u{ord(found[0]):04X}"), value)
    return f'"{escaped}"'


def _key(name: object, path: str, file: str) -> str:
    if not isinstance(name, str):
        raise _unfit(path, file, f"the key {quoted(name)} is not a text")
    _encodable(name, path, file)
    return name


def _encodable(value: bool | str, path: str, file: str) -> bool | str:  # noqa: FBT001  # a value of configuration
    if isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise _unfit(path, file, f"{quoted(value)} cannot be written as UTF-8")
    return value


def _unfit(path: str, file: str, problem: str) -> UnreadableConfig:
    return UnreadableConfig(path=file or path, problem=f"{path}: {problem}" if file else problem)


def _syntax_error(file: str, text: str, message: str) -> UnreadableConfig:
    found = _PLACE.fullmatch(message)
    if found is None:
        return UnreadableConfig(path=file, problem=message)
    place = (int(found["line"]), int(found["column"])) if found["line"] else _place_after(text)
    return _wrong(file, place, found["problem"])


def _place_after(text: str) -> tuple[int, int]:
    return text.count("\n") + 1, len(text) - (text.rfind("\n") + 1) + 1


def _wrong(file: str, place: tuple[int, int], problem: str) -> UnreadableConfig:
    line, column = place
    return UnreadableConfig(path=f"{file}:{line}:{column}", problem=problem[:1].lower() + problem[1:])
