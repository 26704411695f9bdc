"""Kinds of arguments, and their candidates."""

from __future__ import annotations

import pytest

from sokovan.cli.app import arguments_of
from sokovan.cli.command_table import COMMANDS, first_words
from sokovan.cli.completion.argument_kinds import (
    ARGUMENT_KINDS,
    OPTION_KINDS,
    REPEATED,
    candidates_of,
    verbs_of,
    with_prefix,
)
from sokovan.cli.completion.command_options import command_options
from sokovan.cli.completion.scripts import SCRIPTS

# Their arguments are new names, or cannot be listed.
_NEW = {
    *("agent run", "agent join", "booking create", "proxy", "init", "context add", "key add", "key rm", "key set"),
    *("login rm", "agent revoke-token"),
}


@pytest.mark.slow
def test_every_command_with_arguments_has_a_kind_for_them() -> None:
    assert {command for command in COMMANDS if arguments_of(command).positionals} - _NEW == set(ARGUMENT_KINDS)
    assert set(ARGUMENT_KINDS) >= REPEATED


@pytest.mark.slow
def test_every_option_that_names_something_exists() -> None:
    known = {option.name for command in COMMANDS for option in command_options(command).values()}
    assert set(OPTION_KINDS) - known == set()


def test_static_candidates_need_no_server() -> None:
    assert candidates_of("", "", {}) == []
    assert candidates_of("file", "", {}) is None
    assert [word for word, _ in candidates_of("command", "", {}) or ()] == first_words()
    assert candidates_of("shell", "", {}) == [(shell, "") for shell in SCRIPTS]
    assert candidates_of("format", "j", {}) == [("json", ""), ("jsonl", "")]
    assert candidates_of("state", "run", {}) == [("RUNNING", "")]
    assert ("exit-codes", "Exit codes and their meaning.") in (candidates_of("topic", "ex", {}) or ())


def test_a_noun_has_its_verbs() -> None:
    assert [verb for verb, _ in verbs_of("config")] == ["server", "show", "push"]
    assert [verb for verb, _ in verbs_of("queue")] == ["ls", "show", "set", "rm", "shares"]


def test_a_prefix_is_matched_against_the_word_only() -> None:
    assert with_prefix([("ls", "show"), ("show", "")], "s") == [("show", "")]
