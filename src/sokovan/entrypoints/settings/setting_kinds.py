"""Kinds of settings: type, default, bounds and meaning.

A section is a frozen dataclass with fields created by `whole`, `switch`, `name`, `text`,
`texts` and `url`; the reader of settings, their variables and the reference page are
derived from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any, TypeVar

from sokovan.domain.errors import InvalidInput, nearest, quoted
from sokovan.domain.ids import is_name
from sokovan.ports.config import ConfigValue

S = TypeVar("S")

WHOLE, SWITCH, NAME, TEXT, TEXTS, URL = "whole number", "true or false", "name", "text", "list of texts", "url"
_WHOLE_FORM = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_SWITCHES = {"true": True, "false": False}
# User and password of a URL; up to the last @, because a password may contain one.
_PASSWORD = re.compile(r"//([^:/@]*):.*@", re.DOTALL)


@dataclass(frozen=True, slots=True)
class SettingProblem:
    """Why one setting is invalid: its full path, and the origin of the value."""

    path: str
    text: str
    origin: str = ""

    def __str__(self) -> str:
        return f"{self.origin}: {self.path}: {self.text}" if self.origin else f"{self.path}: {self.text}"


class InvalidSettings(InvalidInput):
    """The configuration is invalid; lists all problems."""

    code = "invalid-settings"
    hint = "correct the settings named above; nothing was applied"

    def __init__(self, problems: Iterable[SettingProblem]) -> None:
        self.problems = tuple(problems)
        count = f"{len(self.problems)} settings" if len(self.problems) > 1 else "a setting"
        super().__init__("\n  ".join([f"{count} cannot be used:", *map(str, self.problems)]))


@dataclass(frozen=True, slots=True)
class SettingInfo:
    """Kind and meaning of a setting, for validation, reload and the reference page.

    A hot setting takes effect while the server runs. `flag` is the option of a command
    that sets it too. `check` raises InvalidInput for a text of another form.
    """

    kind: str
    meaning: str
    least: int = 0
    most: int = 0
    schemes: tuple[str, ...] = ()
    hot: bool = False
    flag: str = ""
    check: Callable[[str], object] | None = None

    def problem(self, value: object) -> str:
        """Why `value` is invalid; empty if it is valid."""
        if self.kind == WHOLE:
            return self._number_problem(value)
        if self.kind == SWITCH:
            return "" if isinstance(value, bool) else f"{quoted(value)} must be true or false"
        if self.kind == URL:
            return self._url_problem(value)
        if self.kind == TEXTS:
            return self._list_problem(value)
        return self._text_problem(value)

    def read(self, text: str) -> ConfigValue:
        """The value that a variable or an option gives as text.

        A text of another form is returned as it is, and is then a problem.
        """
        if self.kind == WHOLE and _WHOLE_FORM.fullmatch(text):
            return int(text)
        if self.kind == SWITCH:
            return _SWITCHES.get(text.lower(), text)
        if self.kind == TEXTS:
            return [part.strip() for part in text.split(",")]
        return text

    def shown(self, value: object) -> object:
        """The value for display: a URL without password and query."""
        if self.kind != URL or not isinstance(value, str):
            return list(value) if isinstance(value, tuple) else value
        address, mark, _ = value.partition("?")
        return _PASSWORD.sub(r"//\1:(hidden)@", address) + ("?(hidden)" if mark else "")

    @property
    def form(self) -> str:
        """The kind with its bounds, as text."""
        if self.kind == WHOLE:
            return f"whole number, {self.least} to {self.most}"
        return f"URL: {', '.join(f'`{scheme}:`' for scheme in self.schemes)}" if self.schemes else self.kind

    def _number_problem(self, value: object) -> str:
        if not isinstance(value, int) or isinstance(value, bool):
            return f"{quoted(value)} must be a whole number"
        return "" if self.least <= value <= self.most else f"{value} must be from {self.least} to {self.most}"

    def _text_problem(self, value: object) -> str:
        if not isinstance(value, str):
            return f"{quoted(value)} must be a text"
        if self.kind == NAME:
            return "" if is_name(value) else f"{quoted(value)} is not a name"
        if self.check is not None:
            try:
                self.check(value)
            except InvalidInput as error:
                return error.message if error.hint == InvalidInput.hint else f"{error.message}; {error.hint}"
        return ""

    def _list_problem(self, value: object) -> str:
        if not isinstance(value, list | tuple):
            return f"{quoted(value)} must be a list of texts"
        return next(filter(None, map(self._text_problem, value)), "")

    def _url_problem(self, value: object) -> str:
        # A URL may contain a password, so it is not quoted.
        if not isinstance(value, str):
            return "must be a text"
        scheme, colon, _ = value.partition(":")
        if colon and scheme in self.schemes:
            return ""
        given = f"begins with {quoted(f'{scheme}:')}" if colon and is_name(scheme) else "has no known scheme"
        return f"{given}; it must begin with {', '.join(f'{one}:' for one in self.schemes)}"


def whole(default: int, meaning: str, *, least: int, most: int, hot: bool = False, flag: str = "") -> Any:
    """A field for a whole number within bounds."""
    info = SettingInfo(WHOLE, meaning, least=least, most=most, hot=hot, flag=flag)
    return field(default=default, metadata={"info": info})


def switch(*, default: bool, meaning: str, hot: bool = False, flag: str = "") -> Any:
    """A field that is true or false."""
    return field(default=default, metadata={"info": SettingInfo(SWITCH, meaning, hot=hot, flag=flag)})


def name(default: str, meaning: str, *, flag: str = "") -> Any:
    """A field for a name; an empty default means that there is none."""
    return field(default=default, metadata={"info": SettingInfo(NAME, meaning, flag=flag)})


def text(default: str, meaning: str, *, check: Callable[[str], object] | None = None, flag: str = "") -> Any:
    """A field for a text; `check` raises InvalidInput if it has another form."""
    return field(default=default, metadata={"info": SettingInfo(TEXT, meaning, check=check, flag=flag)})


def texts(
    default: tuple[str, ...], meaning: str, *, check: Callable[[str], object] | None = None, flag: str = ""
) -> Any:
    """A field for a list of texts, separated by commas in variables and options."""
    return field(default=default, metadata={"info": SettingInfo(TEXTS, meaning, check=check, flag=flag)})


def url(default: str, meaning: str, *, schemes: tuple[str, ...]) -> Any:
    """A field for a URL; it is not printed, because it may contain a password."""
    return field(default=default, metadata={"info": SettingInfo(URL, meaning, schemes=schemes)}, repr=False)


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
            accepted[key] = tuple(given) if isinstance(given, list) else given
    return section(**accepted)


def with_origins(problems: Iterable[SettingProblem], origins: Mapping[str, str]) -> list[SettingProblem]:
    """The problems, each with the origin of its setting or of the table around it."""
    return [replace(one, origin=origin_of(one.path, origins)) for one in problems]


def origin_of(path: str, origins: Mapping[str, str]) -> str:
    """The origin of a setting, of the nearest table around it, or of a setting in it."""
    around = path
    while around not in origins and around:
        around = around[: max(around.rfind("."), around.rfind("["), 0)]
    inside = (origin for inner, origin in origins.items() if inner.startswith(f"{path}."))
    return origins[around] if around in origins else next(inside, "")


def unknown(key: str, known: Iterable[str]) -> str:
    """The message for an unknown key, with the closest known one."""
    return f"is not known; {nearest(key, known)}"
