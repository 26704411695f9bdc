"""Kinds of settings: type, default, bounds and meaning.

A section is a frozen dataclass with fields created by `whole`, `name` and `url`; the
reader of settings and the reference page are derived from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, TypeVar

from sokovan.domain.errors import InvalidInput, nearest, quoted
from sokovan.domain.ids import is_name

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class SettingProblem:
    """Why one setting is invalid, with its full path."""

    path: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


class InvalidSettings(InvalidInput):
    """The configuration is invalid; lists all problems."""

    code = "invalid-settings"
    hint = "correct the settings named above; until then the previous settings stay in force"

    def __init__(self, problems: Iterable[SettingProblem]) -> None:
        self.problems = tuple(problems)
        count = f"{len(self.problems)} settings" if len(self.problems) > 1 else "a setting"
        super().__init__("\n  ".join([f"{count} cannot be used:", *map(str, self.problems)]))


@dataclass(frozen=True, slots=True)
class SettingInfo:
    """Kind and meaning of a setting, for validation and the reference page."""

    kind: str
    meaning: str
    least: int = 0
    most: int = 0
    schemes: tuple[str, ...] = ()

    def problem(self, value: object) -> str:
        """Why `value` is invalid; empty if it is valid."""
        if self.kind == "whole number":
            return self._number_problem(value)
        if self.kind == "url":
            return self._url_problem(value)
        if not isinstance(value, str):
            return f"{quoted(value)} must be a text"
        return "" if is_name(value) else f"{quoted(value)} is not a name"

    @property
    def form(self) -> str:
        """The kind with its bounds, as text."""
        if self.kind == "whole number":
            return f"whole number, {self.least} to {self.most}"
        return f"URL: {', '.join(f'`{scheme}:`' for scheme in self.schemes)}" if self.schemes else self.kind

    def _number_problem(self, value: object) -> str:
        if not isinstance(value, int) or isinstance(value, bool):
            return f"{quoted(value)} must be a whole number"
        return "" if self.least <= value <= self.most else f"{value} must be from {self.least} to {self.most}"

    def _url_problem(self, value: object) -> str:
        # A URL may contain a password, so it is not quoted.
        if not isinstance(value, str):
            return "must be a text"
        scheme, colon, _ = value.partition(":")
        if colon and scheme in self.schemes:
            return ""
        given = f"begins with {quoted(f'{scheme}:')}" if colon and is_name(scheme) else "has no known scheme"
        return f"{given}; it must begin with {', '.join(f'{one}:' for one in self.schemes)}"


def whole(default: int, meaning: str, *, least: int, most: int) -> Any:
    """A field for a whole number within bounds."""
    return field(default=default, metadata={"info": SettingInfo("whole number", meaning, least=least, most=most)})


def name(default: str, meaning: str) -> Any:
    """A field for a name."""
    return field(default=default, metadata={"info": SettingInfo("name", meaning)})


def url(default: str, meaning: str, *, schemes: tuple[str, ...]) -> Any:
    """A field for a URL; it is not printed, because it may contain a password."""
    return field(default=default, metadata={"info": SettingInfo("url", meaning, schemes=schemes)}, repr=False)


def settings_in(section: type) -> dict[str, tuple[SettingInfo, object]]:
    """The settings of a section by name: description and default."""
    return {
        one.name: (one.metadata["info"], None if one.default is MISSING else one.default)
        for one in fields(section)
        if "info" in one.metadata
    }


def section_of(section: type[S], value: object, *, path: str, problems: list[SettingProblem]) -> S:
    """Build a section from plain values; adds to `problems`."""
    if not isinstance(value, Mapping):
        problems.append(SettingProblem(path, f"must be a table, not {type(value).__name__}"))
        return section()
    known = settings_in(section)
    accepted: dict[str, object] = {}
    for key, given in value.items():
        wrong = known[key][0].problem(given) if key in known else unknown(key, known)
        if wrong:
            problems.append(SettingProblem(f"{path}.{key}", wrong))
        else:
            accepted[key] = given
    return section(**accepted)


def unknown(key: str, known: Iterable[str]) -> str:
    """The message for an unknown key, with the closest known one."""
    return f"is not known; {nearest(key, known)}"
