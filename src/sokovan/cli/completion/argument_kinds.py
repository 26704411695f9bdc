"""Of which kind a word is, and which words there are of that kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sokovan.cli.command_table import COMMANDS, TOPICS, first_words, summary_of

# A word, and what it means.
Candidate = tuple[str, str]
Flags = Mapping[str, str | None]

_WHOLE = ("queue", "quota", "scaling-group", "image", "domain", "group", "user")

# What stands after a command; after some of them there may be many.
WORDS = {
    **dict.fromkeys(("logs", "why", "session show", "session history", "session why"), "session"),
    **dict.fromkeys(("exec", "shell", "wait", "stop", "session stop"), "live-session"),
    "cancel": "waiting-session",
    **{f"agent {verb}": "agent" for verb in ("show", "history", "drain", "undrain", "declare-gone")},
    **{f"{noun} {verb}": noun for noun in _WHOLE for verb in ("show", "set", "rm")},
    **dict.fromkeys(("context use", "context rm"), "context"),
    **dict.fromkeys(("run", "plan", "simulate"), "file"),
    "help": "topic",
    "completion": "shell",
}
MANY = frozenset({"wait", "stop", "session stop", "cancel", "run", "plan", "simulate"})

# What stands after an option, under the first of its names.
VALUES = {
    **{f"--{noun}": noun for noun in (*_WHOLE, "context")},
    "--parent": "queue",
    "--depends-on": "session",
    "--output": "format",
    **dict.fromkeys(("--status", "--until", "--for"), "state"),
    **dict.fromkeys(("--file", "--token-file", "--data", "--root", "--save", "--mount"), "file"),
}


def words_of(kind: str, prefix: str, flags: Flags) -> list[Candidate] | None:
    """What there is of a kind, by its beginning; None: files. Raises ClientProblem."""
    match kind:
        case "":
            return []
        case "file":
            return None
        case "command":
            return beginning(_commands(), prefix)
        case "topic":
            return beginning([*TOPICS.items(), *_commands()], prefix)
        case "shell":
            return beginning(_plain(_shells()), prefix)
        case "format":
            return beginning(_plain(_formats()), prefix)
        case "state":
            return beginning(_plain(_states()), prefix.upper())
    from sokovan.cli.completion.name_lookup import names_of  # noqa: PLC0415  # words of ours have no need of it

    return names_of(kind, prefix, flags)


def verbs_of(noun: str) -> list[Candidate]:
    """The commands of a noun."""
    found = ([*words.split(), summary] for words, (_, summary) in COMMANDS.items() if words.startswith(f"{noun} "))
    return [(verb, summary) for _, verb, summary in found]


def beginning(words: Iterable[Candidate], prefix: str) -> list[Candidate]:
    """Those that begin with a prefix."""
    return [(word, meaning) for word, meaning in words if word.startswith(prefix)]


def _plain(words: Iterable[str]) -> list[Candidate]:
    return [(word, "") for word in words]


def _commands() -> list[Candidate]:
    return [(word, summary_of(word)) for word in first_words()]


def _shells() -> Iterable[str]:
    from sokovan.cli.completion.scripts import SCRIPTS  # noqa: PLC0415  # few ask for it

    return SCRIPTS


def _formats() -> Iterable[str]:
    from sokovan.cli.rendering import FORMATS  # noqa: PLC0415  # few ask for it

    return FORMATS


def _states() -> Iterable[str]:
    from sokovan.sdk.core.states import STATES  # noqa: PLC0415  # few ask for it

    return STATES
