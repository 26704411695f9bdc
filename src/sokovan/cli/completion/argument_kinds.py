"""Kinds of arguments, and the completion candidates of each kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sokovan.cli.command_table import CATALOG_NOUNS, COMMANDS, TOPICS, first_words, summary_of

# A word and its description.
Candidate = tuple[str, str]
Flags = Mapping[str, str | None]

# Kind of the positional arguments of a command.
ARGUMENT_KINDS = {
    **dict.fromkeys(
        (
            "logs",
            "why",
            "session show",
            "session history",
            "session why",
            "session files",
            "session spec",
            "session stats",
        ),
        "session",
    ),
    **dict.fromkeys(("exec", "shell", "port-forward", "open", "wait", "stop", "session stop"), "live-session"),
    **dict.fromkeys(("cancel", "session release"), "waiting-session"),
    **{f"deployment {verb}": "deployment" for verb in ("show", "scale", "update", "promote", "rollback", "history")},
    **dict.fromkeys(("deployment why", "deployment events", "deployment rm", "chat"), "deployment"),
    **dict.fromkeys(("route show", "route set"), "deployment"),
    **{f"token {verb}": "deployment" for verb in ("create", "ls", "revoke")},
    **dict.fromkeys(("serve", "deployment plan"), "file"),
    **{
        f"agent {verb}": "agent"
        for verb in (
            "show",
            "history",
            "devices",
            "drain",
            "undrain",
            "declare-gone",
            "label",
            "taint",
            "remove",
            "approve",
        )
    },
    **{f"{noun} {verb}": noun for noun in CATALOG_NOUNS for verb in ("show", "set", "rm")},
    **dict.fromkeys(("topology show", "agent maintenance", "agent timeline"), "agent"),
    **dict.fromkeys(("booking show", "booking rm"), "booking"),
    "queue shares": "queue",
    **dict.fromkeys(("context use", "context rm"), "context"),
    **dict.fromkeys(("run", "plan", "simulate", "cp", "server init", "config push"), "file"),
    "help": "topic",
    "completion": "shell",
}
# Commands that take any number of positional arguments.
REPEATED = frozenset(
    {"agent maintenance", "wait", "stop", "session stop", "session release", "cancel", "run", "plan", "simulate", "cp"}
)

# Kind of the value of an option, by the first of its names.
OPTION_KINDS = {
    **{f"--{noun}": noun for noun in (*CATALOG_NOUNS, "context")},
    "--parent": "queue",
    "--booking": "booking",
    "--depends-on": "session",
    "--output": "format",
    **dict.fromkeys(("--status", "--until", "--for"), "state"),
    **dict.fromkeys(("--file", "--token-file", "--data", "--root", "--save", "--mount", "--ca"), "file"),
    **dict.fromkeys(("--config", "--keys-of", "--from-sqlite"), "file"),
}


def candidates_of(kind: str, prefix: str, flags: Flags) -> list[Candidate] | None:
    """The candidates of a kind with a prefix; None for files. Raises ClientProblem."""
    match kind:
        case "":
            return []
        case "file":
            return None
        case "command":
            return with_prefix(_commands(), prefix)
        case "topic":
            return with_prefix([*TOPICS.items(), *_commands()], prefix)
        case "shell":
            return with_prefix(_plain(_shells()), prefix)
        case "format":
            return with_prefix(_plain(_formats()), prefix)
        case "state":
            return with_prefix(_plain(_states()), prefix.upper())
    from sokovan.cli.completion.name_lookup import names_of  # noqa: PLC0415  # loads only for names from the server

    return names_of(kind, prefix, flags)


def verbs_of(noun: str) -> list[Candidate]:
    """The commands of a noun."""
    found = ([*words.split(), summary] for words, (_, summary) in COMMANDS.items() if words.startswith(f"{noun} "))
    return [(verb, summary) for _, verb, summary in found]


def with_prefix(words: Iterable[Candidate], prefix: str) -> list[Candidate]:
    """The candidates that begin with a prefix."""
    return [(word, meaning) for word, meaning in words if word.startswith(prefix)]


def _plain(words: Iterable[str]) -> list[Candidate]:
    return [(word, "") for word in words]


def _commands() -> list[Candidate]:
    return [(word, summary_of(word)) for word in first_words()]


def _shells() -> Iterable[str]:
    from sokovan.cli.completion.scripts import SCRIPTS  # noqa: PLC0415  # rarely used

    return SCRIPTS


def _formats() -> Iterable[str]:
    from sokovan.cli.rendering import FORMATS  # noqa: PLC0415  # rarely used

    return FORMATS


def _states() -> Iterable[str]:
    from sokovan.sdk.core.states import STATES  # noqa: PLC0415  # rarely used

    return STATES
