"""Reads a command line into the arguments of a command.

An option's value is the next word or follows `=`; short switches may be joined (`-aw`), and
a value may follow a short option at once (`-n5`). After `--`, every word is an argument.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sokovan.cli.arguments.command_arguments import Argument, CommandArguments
from sokovan.cli.errors import usage_error
from sokovan.cli.suggestions import closest

END_OF_OPTIONS = "--"
_WHOLE = re.compile(r"[+-]?[0-9]{1,30}", re.ASCII)
_NUMBER = re.compile(r"[+-]?[0-9][0-9a-fA-F_xob]*(\.[0-9_]*)?([eE][+-]?[0-9]+)?", re.ASCII)
_TRUE = frozenset({"1", "t", "true", "y", "yes"})
_FALSE = frozenset({"0", "f", "false", "n", "no"})
_QUOTED_MAX = 80


def read_arguments(
    command: CommandArguments, words: Sequence[str], *, hint: str
) -> tuple[list[object], dict[str, object]]:
    """The positional and keyword arguments of a command.

    Raises a usage error with this hint.
    """
    return _Reader(command, words, hint).arguments()


class _Reader:
    """One pass over the words after the name of a command."""

    def __init__(self, command: CommandArguments, words: Sequence[str], hint: str) -> None:
        self._command, self._words, self._hint = command, list(words), hint
        self._next = 0
        self._given: dict[Argument, list[object]] = {}

    def arguments(self) -> tuple[list[object], dict[str, object]]:
        plain = list(self._plain_words())
        self._place(plain)
        for one in self._command.all:
            if one.required and one not in self._given:
                raise self._missing(one.name)
        positional: list[object] = []
        keywords: dict[str, object] = {}
        fields: dict[str, dict[str, object]] = {}
        for one, values in self._given.items():
            value = tuple(values) if one.type.repeated else values[0]
            if one.field:
                fields.setdefault(one.owner, {})[one.field] = value
            elif not one.positional:
                keywords[one.owner] = value
            else:
                positional += values
        classes = self._command.option_classes
        return positional, keywords | {owner: classes[owner](**given) for owner, given in fields.items()}

    def _plain_words(self) -> Iterator[str]:
        """Read the options; the other words are positional arguments."""
        while self._next < len(self._words):
            word = self._words[self._next]
            self._next += 1
            if word == END_OF_OPTIONS:
                yield from self._words[self._next :]
                return
            if not _is_option_like(word):
                yield word
            elif word.startswith("--"):
                self._read_long(word)
            else:
                self._read_short(word)

    def _read_long(self, word: str) -> None:
        name, equals, value = word.partition("=")
        option = self._option(name) or self._option(name.replace("_", "-"))
        if option is None:
            raise self._unknown(name)
        self._give(option, name, value if equals else None)

    def _read_short(self, word: str) -> None:
        name, equals, value = word.partition("=")
        option = self._option(name)
        if option is not None:
            self._give(option, name, value if equals else None)
            return
        for place, letter in enumerate(word[1:], start=1):
            option = self._option(f"-{letter}")
            if option is None:
                raise self._unknown(word if place == 1 else f"-{letter}")
            if not option.is_switch:
                self._give(option, f"-{letter}", word[place + 1 :] or None)
                return
            self._give(option, f"-{letter}", None)

    def _option(self, name: str) -> Argument | None:
        return self._command.options.get(name)

    def _give(self, option: Argument, name: str, text: str | None) -> None:
        if option in self._given and not option.type.repeated:
            raise self._repeated(option, name)
        if option.is_switch:
            value: object = text is None or self._switch(name, text)
            self._add(option, value is not (name in option.negatives))
            return
        if text is None:
            text = self._following(option, name)
        self._add(option, self._converted(option, name, text))

    def _following(self, option: Argument, name: str) -> str:
        word = self._words[self._next] if self._next < len(self._words) else END_OF_OPTIONS
        if word == END_OF_OPTIONS or (_is_option_like(word) and not option.allow_leading_hyphen):
            raise self._missing(name)
        self._next += 1
        return word

    def _place(self, words: Sequence[str]) -> None:
        """Give the plain words to the positional arguments, in their order."""
        left = list(words)
        for one in self._command.positionals:
            taken = len(left) if one.type.repeated else 1
            for text in left[:taken]:
                self._add(one, self._converted(one, one.name, text))
            del left[:taken]
        if left:
            raise usage_error(f"unexpected argument {left[0][:_QUOTED_MAX]!r}", hint=self._hint)

    def _add(self, one: Argument, value: object) -> None:
        self._given.setdefault(one, []).append(value)

    def _converted(self, one: Argument, name: str, text: str) -> object:
        kind, choices = one.type.kind, one.type.choices
        if choices and text not in choices:
            raise self._no_choice(name, text, choices)
        if kind is int and not _WHOLE.fullmatch(text):
            if _NUMBER.fullmatch(text):
                raise self._invalid(name, f"{text[:60]!r} is not a whole number")
            raise self._unconvertible(name, text, "int")
        try:
            return _CONVERTED[kind](text)
        except ValueError as error:
            raise self._unconvertible(name, text, kind.__name__) from error

    def _switch(self, name: str, text: str) -> bool:
        word = text.lower()
        if word not in _TRUE | _FALSE:
            raise self._unconvertible(name, text, "bool")
        return word in _TRUE

    def _unknown(self, name: str) -> Exception:
        shown = f"Unknown option: {name[:_QUOTED_MAX]}."
        if not name.startswith("--") and len(name) > 2:
            return usage_error(f"{shown} {name[:2]} is not a recognized option.", hint=self._hint)
        return usage_error(shown + _closest(name, self._command.options), hint=self._hint)

    def _missing(self, name: str) -> Exception:
        return usage_error(f'Command "{self._command.words}" parameter {name} requires an argument.', hint=self._hint)

    def _repeated(self, option: Argument, name: str) -> Exception:
        spelled = {word.partition("=")[0] for word in self._words[: self._next]}
        if len(spelled.intersection(option.names)) > 0 < len(spelled.intersection(option.negatives)):
            return usage_error(f"{name} and its opposite are both given; give one of them", hint=self._hint)
        return usage_error(f"Parameter {name} specified multiple times.", hint=self._hint)

    def _no_choice(self, name: str, text: str, choices: Sequence[str]) -> Exception:
        known = ", ".join(f'"{each}"' for each in choices)
        shown = f'Invalid value "{text[:_QUOTED_MAX]}" for {name}. Choose from: {known}.'
        return usage_error(shown + _closest(text, choices, quote='"'), hint=self._hint)

    def _unconvertible(self, name: str, text: str, kind: str) -> Exception:
        return self._invalid(name, f'unable to convert "{text[:_QUOTED_MAX]}" into {kind}.')

    def _invalid(self, name: str, problem: str) -> Exception:
        return usage_error(f"Invalid value for {name}: {problem}", hint=self._hint)


_CONVERTED: Mapping[type, Any] = {int: int, float: float, str: str, Path: Path}


def _is_option_like(word: str) -> bool:
    return word.startswith("-") and len(word) > 1 and not _NUMBER.fullmatch(word)


def _closest(word: str, known: Sequence[str] | Mapping[str, object], *, quote: str = "") -> str:
    meant = closest(word, list(known))
    return f" Did you mean {quote}{meant}{quote}?" if meant else ""
