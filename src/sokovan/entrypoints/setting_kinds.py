"""What a setting may be: its kind, default, bounds and meaning, said once.

A section is a frozen dataclass whose fields are made by `whole`, `name` and `url`;
the reader of settings and the reference page both follow from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from difflib import get_close_matches
from typing import Any, TypeVar

from sokovan.domain.errors import InvalidInput, listed, quoted
from sokovan.domain.ids import is_name

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class SettingProblem:
    """Why one setting cannot be taken, with its full path."""

    path: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


class InvalidSettings(InvalidInput):
    """A configuration that cannot be taken, with every problem in it."""

    code = "invalid-settings"
    hint = "mend the settings named above; until then what was in force before stays"

    def __init__(self, problems: Iterable[SettingProblem]) -> None:
        self.problems = tuple(problems)
        count = f"{len(self.problems)} settings" if len(self.problems) > 1 else "a setting"
        super().__init__("\n  ".join([f"{count} cannot be taken:", *map(str, self.problems)]))


@dataclass(frozen=True, slots=True)
class About:
    """The kind of a setting and what it means, for checks and for the reference page."""

    kind: str
    meaning: str
    least: int = 0
    most: int = 0
    schemes: tuple[str, ...] = ()

    def problem(self, value: object) -> str:
        """Why `value` is not of this kind; empty if it is."""
        if self.kind == "whole number":
            return self._number_problem(value)
        if self.kind == "url":
            return self._url_problem(value)
        if not isinstance(value, str):
            return f"{quoted(value)} must be a text"
        return "" if is_name(value) else f"{quoted(value)} is not a name"

    @property
    def form(self) -> str:
        """The kind with its bounds, in words."""
        if self.kind == "whole number":
            return f"whole number, {self.least} to {self.most}"
        return f"URL: {', '.join(f'`{scheme}:`' for scheme in self.schemes)}" if self.schemes else self.kind

    def _number_problem(self, value: object) -> str:
        if not isinstance(value, int) or isinstance(value, bool):
            return f"{quoted(value)} must be a whole number"
        return "" if self.least <= value <= self.most else f"{value} must be from {self.least} to {self.most}"

    def _url_problem(self, value: object) -> str:
        # A URL may hold a password, so it is not quoted.
        if not isinstance(value, str):
            return "must be a text"
        scheme, colon, _ = value.partition(":")
        if colon and scheme in self.schemes:
            return ""
        given = f"begins with {quoted(f'{scheme}:')}" if colon and is_name(scheme) else "has no known beginning"
        return f"{given}; it must begin with {', '.join(f'{one}:' for one in self.schemes)}"


def whole(default: int, meaning: str, *, least: int, most: int) -> Any:
    """A field for a whole number within bounds."""
    return field(default=default, metadata={"about": About("whole number", meaning, least=least, most=most)})


def name(default: str, meaning: str) -> Any:
    """A field for a name."""
    return field(default=default, metadata={"about": About("name", meaning)})


def url(default: str, meaning: str, *, schemes: tuple[str, ...]) -> Any:
    """A field for a URL; it is not printed, because it may hold a password."""
    return field(default=default, metadata={"about": About("url", meaning, schemes=schemes)}, repr=False)


def settings_in(section: type) -> dict[str, tuple[About, object]]:
    """The settings of a section by name: what each is, and its default."""
    return {
        one.name: (one.metadata["about"], None if one.default is MISSING else one.default)
        for one in fields(section)
        if "about" in one.metadata
    }


def section_of(section: type[S], value: object, *, path: str, problems: list[SettingProblem]) -> S:
    """The section that plain values describe; what is wrong is added to `problems`."""
    if not isinstance(value, Mapping):
        problems.append(SettingProblem(path, f"must be a table, not {type(value).__name__}"))
        return section()
    known = settings_in(section)
    taken: dict[str, object] = {}
    for key, given in value.items():
        wrong = known[key][0].problem(given) if key in known else unknown(key, known)
        if wrong:
            problems.append(SettingProblem(f"{path}.{key}", wrong))
        else:
            taken[key] = given
    return section(**taken)


def unknown(key: str, known: Iterable[str]) -> str:
    """That a key is not known, with the one that was probably meant."""
    names = list(known)
    close = get_close_matches(key, names, n=1)
    return f"is not known; did you mean {close[0]}?" if close else f"is not known; known are {listed(names)}"
