"""The layout of a configuration in etcd: keys, values, and changes.

A section is one key with a JSON value; an entry of a section may have its own key
below it, which overrides the section's value. The guard is a key that every sokovan
writer changes, so that of two concurrent writers only one succeeds.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sokovan.domain.errors import InvalidName, quoted
from sokovan.ports.config import ConfigTree, ConfigValue, UnreadableConfig, section_and_entry, setting_path

PREFIX = "/sokovan/config/"
# No section begins with a dot; the guard is below the prefix and is read with the sections.
GUARD = ".guard"
# Tokens kept in the guard: a writer recognises its own write after up to this many later ones.
TOKENS_KEPT = 32
DEPTH_MAX = 32

_PREFIX_FORM = re.compile(r"(/[A-Za-z0-9._-]+)+/", re.ASCII)


@dataclass(frozen=True, slots=True)
class Pair:
    """One key below the prefix, with its value and the revision that set it."""

    key: str
    value: bytes
    set_at: int


@dataclass(frozen=True, slots=True)
class KeyChange:
    """One part of a change: set a key, remove it (None), or remove all below it."""

    key: str
    value: str | None = None
    is_below: bool = False


@dataclass(frozen=True, slots=True)
class Stored:
    """Everything below the prefix at one revision of the server."""

    pairs: tuple[Pair, ...]
    at: int

    @property
    def revision(self) -> str:
        """A hash of all keys, their values and their revisions."""
        digest = hashlib.sha256()
        for pair in sorted(self.pairs, key=lambda pair: pair.key):
            digest.update(f"{pair.key}\0{pair.set_at}\0{len(pair.value)}\0".encode())
            digest.update(pair.value)
        return digest.hexdigest()[:32]

    @property
    def guard(self) -> bytes:
        """The guard's value; empty before the first write."""
        return next((pair.value for pair in self.pairs if pair.key == GUARD), b"")

    def tree(self) -> ConfigTree:
        """The configuration. Raises UnreadableConfig, with the key."""
        values: dict[str, ConfigValue] = {}
        origins: dict[str, str] = {}
        # A section's own key sorts before those of its entries.
        for pair in sorted(self.pairs, key=lambda pair: (pair.key.partition("/")[0], pair.key)):
            section, slash, entry = pair.key.partition("/")
            if pair.key == GUARD:
                continue
            value = decoded(pair.value, key=pair.key)
            origins[setting_path(section, entry) if slash else section] = f"etcd:{pair.key}"
            if not slash:
                values[section] = value
                continue
            table = values.setdefault(section, {})
            if not isinstance(table, dict):
                raise UnreadableConfig(path=pair.key, problem=f"is an entry, but {section} is a single value")
            table[entry] = value
        return ConfigTree(values, self.revision, origins)


def checked_prefix(prefix: str) -> str:
    """The prefix with a trailing slash. Raises InvalidName."""
    ended = prefix if prefix.endswith("/") else f"{prefix}/"
    if not _PREFIX_FORM.fullmatch(ended):
        raise InvalidName(what="prefix of keys", name=prefix)
    return ended


def tokens(guard: bytes) -> list[str]:
    """The tokens of the last writers, oldest first."""
    return guard.decode("ascii", "replace").split()


def guard_with(guard: bytes, token: str) -> str:
    """The guard's value with one more token."""
    return " ".join([*tokens(guard), token][-TOKENS_KEPT:])


def key_changes(stored: Stored, changes: Mapping[str, ConfigValue | None]) -> list[KeyChange]:
    """The key changes that apply `changes` to the stored configuration.

    Empty if nothing differs. Raises InvalidName, UnreadableConfig.
    """
    before = stored.tree().values
    after = _applied(before, changes)
    keys = {pair.key for pair in stored.pairs}
    entries: dict[str, list[str | None]] = {}
    for name in changes:
        section, entry = section_and_entry(name)
        entries.setdefault(section, []).append(entry)
    found: list[KeyChange] = []
    for section, touched in entries.items():
        if not _same(before.get(section), after.get(section)):
            found += _section_changes(section, touched, after.get(section), keys)
    return found


def encoded(value: ConfigValue, *, key: str) -> str:
    """Encode a value as JSON. Raises UnreadableConfig if JSON or TOML cannot hold it."""
    _check(value, key, 0)
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UnreadableConfig(path=key, problem="has a text that cannot be written as UTF-8") from error
    return text


def decoded(value: bytes, *, key: str) -> ConfigValue:
    """Decode a JSON value. Raises UnreadableConfig, with the key."""
    try:
        found: ConfigValue = json.loads(value.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise UnreadableConfig(path=key, problem="is not UTF-8 text") from error
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise UnreadableConfig(path=key, problem=f"is not JSON: {error.msg} at {place}") from error
    except (RecursionError, ValueError) as error:
        raise UnreadableConfig(path=key, problem="cannot be decoded as JSON") from error
    _check(found, key, 0)
    return found


def _section_changes(
    section: str, touched: Sequence[str | None], value: ConfigValue | None, keys: Iterable[str]
) -> list[KeyChange]:
    """A single entry is written to its own key; other changes replace the whole section."""
    entry = touched[0] if len(touched) == 1 else None
    if entry is not None and isinstance(value, dict) and entry in value:
        key = f"{section}/{entry}"
        return [KeyChange(key, encoded(value[entry], key=f"{section}.{entry}"))]
    below = [KeyChange(f"{section}/", is_below=True)] if any(key.startswith(f"{section}/") for key in keys) else []
    return [KeyChange(section, None if value is None else encoded(value, key=section)), *below]


def _applied(values: Mapping[str, ConfigValue], changes: Mapping[str, ConfigValue | None]) -> dict[str, ConfigValue]:
    after = dict(values)
    for name, value in changes.items():
        section, entry = section_and_entry(name)
        if entry is not None:
            table = after.get(section, {})
            if not isinstance(table, dict):
                raise UnreadableConfig(path=section, problem="is a single value and has no entries")
            kept = {key: item for key, item in table.items() if key != entry}
            after[section] = kept if value is None else {**kept, entry: value}
        elif value is not None:
            after[section] = value
        if value is None and (entry is None or not after[section]):
            after.pop(section, None)
    return after


def _same(before: ConfigValue | None, after: ConfigValue | None) -> bool:
    """Whether two values are equal as JSON, where 1 and true differ."""
    if before is None or after is None:
        return before is after
    return encoded(before, key="") == encoded(after, key="")


def _check(value: object, key: str, depth: int) -> None:
    if isinstance(value, dict | list) and depth >= DEPTH_MAX:
        raise UnreadableConfig(path=key, problem=f"is nested more than {DEPTH_MAX} deep")
    if isinstance(value, dict):
        for name, item in value.items():
            if not isinstance(name, str):
                raise UnreadableConfig(path=key, problem=f"the key {quoted(name)} is not a text")
            _check(item, f"{key}.{name}", depth + 1)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _check(item, f"{key}[{index}]", depth + 1)
    elif isinstance(value, bool | str):
        return
    elif isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise UnreadableConfig(path=key, problem=f"{quoted(value)} has more than 64 bits")
    elif not isinstance(value, float) or value - value != 0:
        raise UnreadableConfig(path=key, problem=f"{quoted(value)} cannot be kept")
