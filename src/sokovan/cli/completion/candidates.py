"""What may stand where the cursor is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from sokovan.cli.command_table import COMMANDS, NOUNS
from sokovan.cli.completion.argument_kinds import MANY, VALUES, WORDS, Candidate, beginning, verbs_of, words_of
from sokovan.cli.exit_codes import OK
from sokovan.cli.output import print_data

if TYPE_CHECKING:
    from sokovan.cli.completion.command_options import CommandOption

# The status that leaves a word to the shell, which knows the files.
FILES = 1


def complete(words: Sequence[str]) -> int:
    """Print what may stand in place of the last word; fail in silence."""
    try:
        found = candidates(words)
    except Exception:  # noqa: BLE001  # somebody is in the middle of a line
        return OK
    if found is None:
        return FILES
    for word, meaning in found:
        print_data(f"{word}\t{meaning}" if meaning else word)
    return OK


def candidates(words: Sequence[str]) -> list[Candidate] | None:
    """What may stand in place of the last word; None: files. Raises ClientProblem."""
    # A shell may take --queue=re for three words, and --queue= for two.
    before = [word for word in words[:-1] if word != "="]
    current = words[-1] if words and words[-1] != "=" else ""
    if "--" in before:
        return None
    if not before:
        overall = [("--help", "Show every command."), ("--version", "Show the version.")]
        return beginning(overall, current) if current.startswith("-") else words_of("command", current, {})
    if before[0] in NOUNS and len(before) == 1:
        return beginning(verbs_of(before[0]), current)
    size = 2 if before[0] in NOUNS else 1
    command = " ".join(before[:size])
    return _Line(command, before[size:], current).candidates() if command in COMMANDS else []


@dataclass(frozen=True, slots=True)
class _Line:
    """A command, what stands after it, and the word at the cursor."""

    command: str
    before: Sequence[str]
    current: str

    def candidates(self) -> list[Candidate] | None:
        option, equals, value = self.current.partition("=")
        if option.startswith("--") and equals:
            return [(f"{option}={word}", meaning) for word, meaning in self._values(option, value) or ()]
        if self.current.startswith("-"):
            return beginning(((name, one.meaning) for name, one in self._options().items()), self.current)
        waiting, place = self._place()
        if waiting:
            return self._values(waiting, self.current)
        kind = WORDS.get(self.command, "") if place == 0 or self.command in MANY else ""
        found = words_of(kind, self.current, self._flags())
        return found and [(word, meaning) for word, meaning in found if word not in self.before]

    def _place(self) -> tuple[str, int]:
        """The option whose value is due, if one is; and how many words stand before."""
        if not any(word.startswith("-") for word in self.before):
            return "", len(self.before)
        options, waiting, place = self._options(), "", 0
        for word in self.before:
            if waiting:
                waiting = ""
            elif word.startswith("-"):
                waiting = word if word in options and options[word].takes_value else ""
            else:
                place += 1
        return waiting, place

    def _values(self, name: str, prefix: str) -> list[Candidate] | None:
        option = self._options().get(name)
        if option is None:
            return []
        if option.choices:
            return beginning(((each, "") for each in option.choices), prefix)
        return words_of(VALUES.get(option.name, ""), prefix, self._flags())

    def _flags(self) -> dict[str, str | None]:
        """Which server is meant, as far as the line says so."""
        joined = [part for word in self.before for part in word.split("=", 1)]
        said = dict(pairwise(joined))
        return {"context": said.get("--context"), "url": said.get("--url")}

    def _options(self) -> dict[str, CommandOption]:
        from sokovan.cli.completion.command_options import command_options  # noqa: PLC0415  # the parser loads only here

        return command_options(self.command)
