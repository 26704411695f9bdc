"""A TOML file and its drop-ins, as read from disk."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from sokovan.adapters.local.toml_lines import key_lines
from sokovan.adapters.local.toml_text import parsed
from sokovan.domain.errors import InvalidInput
from sokovan.ports.config import ConfigTree, ConfigUnavailable, ConfigValue, UnreadableConfig, section_and_entry

SIZE_MAX = 8 * 1024 * 1024


class OverriddenSetting(InvalidInput):
    """The change would have no effect, because a drop-in file overrides it."""

    code = "overridden-setting"
    hint = "change or remove the setting in the drop-in file named above; writes go to the main file"

    def __init__(self, *, setting: str, file: str) -> None:
        self.setting, self.file = setting, file
        super().__init__(f"{setting} is set by {file}, which overrides the main file")


@dataclass(frozen=True, slots=True)
class TomlFiles:
    """The content of a main file (None if missing) and of its drop-ins, in order."""

    main: Path
    content: bytes | None
    drop_ins: tuple[tuple[Path, bytes], ...] = ()

    @property
    def revision(self) -> str:
        """A hash of all content; a missing file equals an empty one."""
        digest = hashlib.sha256(self.content or b"")
        for path, content in self.drop_ins:
            digest.update(f"\0{path.name}\0{len(content)}\0".encode())
            digest.update(content)
        return digest.hexdigest()[:32]

    @property
    def is_blank(self) -> bool:
        """Whether the main file is missing or completely empty, without even a comment."""
        return not (self.content or b"").strip()

    def own(self) -> dict[str, ConfigValue]:
        """The values of the main file. Raises UnreadableConfig."""
        return parsed(self.content or b"", file=str(self.main))

    def tree(self) -> ConfigTree:
        """The merged values of all files. Raises UnreadableConfig."""
        values, origins = self.own(), _origins(self.main, self.content or b"")
        for path, content in self.drop_ins:
            values = merged(values, parsed(content, file=str(path)))
            origins |= _origins(path, content)
        return ConfigTree(values, self.revision, origins)

    def with_content(self, content: bytes) -> TomlFiles:
        """The same files with other content of the main file."""
        return replace(self, content=content)

    def overriding(self, section: str, entry: str | None) -> str:
        """The last drop-in file that sets a section or an entry of it."""
        for path, content in reversed(self.drop_ins):
            table = parsed(content, file=str(path)).get(section)
            if table is not None and (entry is None or not isinstance(table, dict) or entry in table):
                return str(path)
        return str(self.main)


def read_files(main: Path, drop_ins: Path | None) -> TomlFiles:
    """Read all files. Raises ConfigUnavailable, UnreadableConfig."""
    found = [(path, _content(path)) for path in _drop_in_files(drop_ins)]
    present = tuple((path, content) for path, content in found if content is not None)
    return TomlFiles(main, _content(main), present)


def signature(main: Path, drop_ins: Path | None) -> tuple[tuple[str, int, int, int], ...]:
    """Name, time of change, size and inode of each file, to detect changes."""
    found = []
    for path in (main, *_drop_in_files(drop_ins)):
        try:
            about = path.stat()
        except OSError:
            continue
        found.append((path.name, max(about.st_mtime_ns, about.st_ctime_ns), about.st_size, about.st_ino))
    return tuple(found)


def merged(below: Mapping[str, ConfigValue], above: Mapping[str, ConfigValue]) -> dict[str, ConfigValue]:
    """Merge tables key by key, where `above` takes precedence; replace other values."""
    joined = dict(below)
    for name, value in above.items():
        under = joined.get(name)
        both_tables = isinstance(under, dict) and isinstance(value, dict)
        joined[name] = merged(under, value) if both_tables else value  # type: ignore[arg-type]  # both are dicts
    return joined


def applied(values: Mapping[str, ConfigValue], changes: Mapping[str, ConfigValue | None]) -> dict[str, ConfigValue]:
    """The values after the changes. Raises InvalidName, UnreadableConfig."""
    after = dict(values)
    for name, value in changes.items():
        section, entry = section_and_entry(name)
        table = _entries(after.get(section, {}), section) if entry is not None else {}
        if entry is not None and value is not None:
            after[section] = {**table, entry: value}
        elif entry is not None:
            after[section] = {key: kept for key, kept in table.items() if key != entry}
        elif value is not None:
            after[section] = value
        if value is None and (entry is None or not after[section]):
            after.pop(section, None)
    return after


def value_at(values: Mapping[str, ConfigValue], section: str, entry: str | None) -> ConfigValue | None:
    """A section, or one entry of it; None if it is missing."""
    table = values.get(section)
    if entry is None:
        return table
    return table.get(entry) if isinstance(table, dict) else None


def _origins(path: Path, content: bytes) -> dict[str, str]:
    """The line of each key of a file that was parsed before."""
    return {key: f"{path}:{line}" for key, line in key_lines(content.decode("utf-8-sig")).items()}


def _entries(value: ConfigValue, section: str) -> dict[str, ConfigValue]:
    if not isinstance(value, dict):
        raise UnreadableConfig(path=section, problem="is a single value and has no entries")
    return value


def _drop_in_files(folder: Path | None) -> list[Path]:
    if folder is None:
        return []
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == ".toml" and not path.name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise ConfigUnavailable(f"cannot read {folder}: {error.strerror}") from error


def _content(path: Path) -> bytes | None:
    try:
        with path.open("rb") as stream:
            content = stream.read(SIZE_MAX + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigUnavailable(f"cannot read {path}: {error.strerror or os.strerror(error.errno or 0)}") from error
    if len(content) > SIZE_MAX:
        raise UnreadableConfig(path=str(path), problem=f"is larger than {SIZE_MAX} bytes")
    return content
