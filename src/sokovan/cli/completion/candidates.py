"""Completion candidates for the argument at the cursor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from sokovan.cli.command_table import COMMANDS, NOUNS
from sokovan.cli.completion.argument_kinds import (
    ARGUMENT_KINDS,
    OPTION_KINDS,
    REPEATED,
    Candidate,
    candidates_of,
    verbs_of,
    with_prefix,
)
from sokovan.cli.exit_codes import OK
from sokovan.cli.output import print_data

if TYPE_CHECKING:
    from sokovan.cli.completion.command_options import CommandOption

# Exit code on which the completion script completes file names.
FILES = 1


def complete(words: Sequence[str]) -> int:
    """Print the candidates for the last argument; errors print nothing."""
    try:
        found = candidates(words)
    except Exception:  # noqa: BLE001  # an error message would garble the command line being typed
        return OK
    if found is None:
        return FILES
    for word, meaning in found:
        print_data(f"{word}\t{meaning}" if meaning else word)
    return OK


def candidates(words: Sequence[str]) -> list[Candidate] | None:
    """The candidates for the last argument; None for files. Raises ClientProblem."""
    # A shell may split --queue=re into three words, and --queue= into two.
    before = [word for word in words[:-1] if word != "="]
    current = words[-1] if words and words[-1] != "=" else ""
    if "--" in before:
        return None
    if not before:
        overall = [("--help", "Show all commands."), ("--version", "Show the version.")]
        return with_prefix(overall, current) if current.startswith("-") else candidates_of("command", current, {})
    if before[0] in NOUNS and len(before) == 1:
        return with_prefix(verbs_of(before[0]), current)
    size = 2 if before[0] in NOUNS else 1
    command = " ".join(before[:size])
    return _CommandLine(command, before[size:], current).candidates() if command in COMMANDS else []


@dataclass(frozen=True, slots=True)
class _CommandLine:
    """A command, the arguments before the cursor, and the one at the cursor."""

    command: str
    before: Sequence[str]
    current: str

    def candidates(self) -> list[Candidate] | None:
        option, equals, value = self.current.partition("=")
        if option.startswith("--") and equals:
            return [(f"{option}={word}", meaning) for word, meaning in self._values(option, value) or ()]
        if self.current.startswith("-"):
            return with_prefix(((name, one.help) for name, one in self._options().items()), self.current)
        option_name, position = self._position()
        if option_name:
            return self._values(option_name, self.current)
        kind = ARGUMENT_KINDS.get(self.command, "") if position == 0 or self.command in REPEATED else ""
        found = candidates_of(kind, self.current, self._flags())
        return found and [(word, meaning) for word, meaning in found if word not in self.before]

    def _position(self) -> tuple[str, int]:
        """The option that expects a value, if any, and the number of positional words before."""
        if not any(word.startswith("-") for word in self.before):
            return "", len(self.before)
        options, expecting, position = self._options(), "", 0
        for word in self.before:
            if expecting:
                expecting = ""
            elif word.startswith("-"):
                expecting = word if word in options and options[word].takes_value else ""
            else:
                position += 1
        return expecting, position

    def _values(self, name: str, prefix: str) -> list[Candidate] | None:
        option = self._options().get(name)
        if option is None:
            return []
        if option.choices:
            return with_prefix(((each, "") for each in option.choices), prefix)
        return candidates_of(OPTION_KINDS.get(option.name, ""), prefix, self._flags())

    def _flags(self) -> dict[str, str | None]:
        """The server options given on the line."""
        joined = [part for word in self.before for part in word.split("=", 1)]
        given = dict(pairwise(joined))
        return {"context": given.get("--context"), "url": given.get("--url")}

    def _options(self) -> Mapping[str, CommandOption]:
        from sokovan.cli.completion.command_options import command_options  # noqa: PLC0415  # the parser loads only here

        return command_options(self.command)
