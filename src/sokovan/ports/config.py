"""Shared configuration: a tree of plain values, watched for changes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from sokovan.domain.errors import InvalidInput, InvalidName, SokovanError
from sokovan.domain.ids import is_name

# The value types that TOML and JSON share.
ConfigValue = bool | int | float | str | list["ConfigValue"] | dict[str, "ConfigValue"]


class ConfigUnavailable(SokovanError):
    """The configuration is unreachable; the last values read stay in force."""

    code = "config-unavailable"
    hint = "restore the configuration's server or file; until then changes have no effect"


class ConfigConflict(SokovanError):
    """The configuration was changed concurrently."""

    code = "config-conflict"
    hint = "read the configuration again and repeat the change"


class UnreadableConfig(InvalidInput):
    """The configuration exists but is not well-formed."""

    code = "unreadable-config"
    hint = "correct the value named above"

    def __init__(self, *, path: str, problem: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(f"{path}: {problem}")


@dataclass(frozen=True, slots=True)
class ConfigTree:
    """The whole configuration at one revision.

    Top-level names are sections. `revision` is opaque; compare it for equality only.
    `origins` are the places of the values by path, as far as they are known: a file and
    its line, a key.
    """

    values: Mapping[str, ConfigValue]
    revision: str
    origins: Mapping[str, str] = field(default_factory=dict, compare=False)


class ConfigStore(Protocol):
    """Reads, writes and watches the configuration."""

    async def read(self) -> ConfigTree:
        """The current configuration. Raises ConfigUnavailable, UnreadableConfig."""

    async def write(self, changes: Mapping[str, ConfigValue | None], *, expected: str) -> ConfigTree:
        """Set sections (None removes one) if the revision is still `expected`.

        Atomic. A section is `name` or, for one entry of a section, `name.entry`. Raises
        ConfigConflict, ConfigUnavailable, InvalidName.
        """

    def watch(self) -> AsyncIterator[ConfigTree | UnreadableConfig]:
        """Yield each new state after the call; intermediate states may be skipped.

        Survives a server restart and a replaced file. A state that cannot be read is
        yielded as the error; the watch continues.
        """

    async def close(self) -> None:
        """Close connections and end all watches."""


def section_and_entry(name: str) -> tuple[str, str | None]:
    """Split `name` or `name.entry` at the first dot. Raises InvalidName."""
    section, dot, entry = name.partition(".")
    if not is_name(section) or "/" in section or (dot and not is_name(entry)):
        raise InvalidName(what="section of the configuration", name=name)
    return section, entry if dot else None


def setting_path(*names: str) -> str:
    """The path of a setting; a name with a dot is quoted.

    >>> setting_path("scaling_groups", "a.b", "scheduler")
    'scaling_groups."a.b".scheduler'
    """
    return ".".join(f'"{name}"' if "." in name else name for name in names)
