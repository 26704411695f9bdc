"""Shared configuration: a tree of plain values, watched for changes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from sokovan.domain.errors import InvalidInput, InvalidName, SokovanError
from sokovan.domain.ids import is_name

# What a value may be: what both TOML and JSON can hold.
ConfigValue = bool | int | float | str | list["ConfigValue"] | dict[str, "ConfigValue"]


class ConfigUnavailable(SokovanError):
    """The configuration cannot be reached; what was read last stays in force."""

    code = "config-unavailable"
    hint = "bring the configuration's server or file back; until then changes are not seen"


class ConfigConflict(SokovanError):
    """Somebody else changed the configuration first."""

    code = "config-conflict"
    hint = "read the configuration again and repeat the change on what is there now"


class UnreadableConfig(InvalidInput):
    """The configuration is there but is not what its format asks for."""

    code = "unreadable-config"
    hint = "mend the place named above"

    def __init__(self, *, path: str, problem: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(f"{path}: {problem}")


@dataclass(frozen=True, slots=True)
class ConfigTree:
    """The whole configuration at one moment.

    Top-level names are sections. `revision` changes with every change and means
    nothing else; compare it for equality only.
    """

    values: Mapping[str, ConfigValue]
    revision: str


class ConfigStore(Protocol):
    """Where the configuration is kept."""

    async def read(self) -> ConfigTree:
        """The configuration now. Raises ConfigUnavailable, UnreadableConfig."""

    async def write(self, changes: Mapping[str, ConfigValue | None], *, expected: str) -> ConfigTree:
        """Set sections (None removes one) if the revision is still `expected`.

        All or nothing, and never half a file. A section is `name` or, for one entry of
        a section, `name.entry`. Raises ConfigConflict, ConfigUnavailable, InvalidName.
        """

    def watch(self) -> AsyncIterator[ConfigTree | UnreadableConfig]:
        """Each new state after the call, latest first to come; skips states nobody saw.

        Survives a server that restarts and a file that is replaced. A state that cannot
        be read is yielded as the error; the watch goes on.
        """

    async def close(self) -> None:
        """Let go of connections and end all watches."""


def section_and_entry(name: str) -> tuple[str, str | None]:
    """`name` or `name.entry`, taken apart at the first dot. Raises InvalidName."""
    section, dot, entry = name.partition(".")
    if not is_name(section) or "/" in section or (dot and not is_name(entry)):
        raise InvalidName(what="section of the configuration", name=name)
    return section, entry if dot else None
