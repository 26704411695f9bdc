"""`sokovan help`."""

from __future__ import annotations

import pytest

from sokovan.cli.command_table import TOPICS, noun_overview
from sokovan.cli.exit_codes import MEANINGS
from sokovan.cli.rendering import FORMATS
from sokovan.sdk.settings import VARIABLES
from sokovan.sdk.spec.session_spec import SESSION_FIELDS
from tests.unit.cli.canned_server import Sokovan


def test_without_a_topic_it_is_the_overview(sokovan: Sokovan) -> None:
    status, out, _ = sokovan("help")
    assert status == 0
    assert all(topic in out.splitlines()[-1] for topic in TOPICS)


@pytest.mark.parametrize(
    ("topic", "words"),
    [
        ("exit-codes", [str(code) for code in MEANINGS]),
        ("environment", list(VARIABLES.values())),
        ("formatting", list(FORMATS)),
        ("spec", list(SESSION_FIELDS)),
    ],
)
def test_a_topic_is_complete(sokovan: Sokovan, topic: str, words: list[str]) -> None:
    status, out, _ = sokovan("help", topic)
    assert status == 0
    assert [word for word in words if word not in out] == []


@pytest.mark.slow
@pytest.mark.parametrize("words", [("run",), ("session", "show")])
def test_the_help_of_a_command_is_that_of_the_command(sokovan: Sokovan, words: tuple[str, ...]) -> None:
    assert sokovan("help", *words) == sokovan(*words, "--help")
    assert sokovan("help", *words)[1].startswith(f"Usage: sokovan {' '.join(words)}")


def test_the_help_of_a_noun_lists_its_commands(sokovan: Sokovan) -> None:
    assert sokovan("help", "queue") == (0, noun_overview("queue") + "\n", "")


@pytest.mark.parametrize("topic", sorted(TOPICS))
def test_every_topic_has_a_page(sokovan: Sokovan, topic: str) -> None:
    assert sokovan("help", topic)[0] == 0


def test_an_unknown_topic_is_a_usage_error(sokovan: Sokovan) -> None:
    status, _, err = sokovan("help", "colours")
    assert status == 2
    assert "the topics are exit-codes, environment, formatting, spec" in err
    assert "did you mean" not in err
    assert "did you mean 'exit-codes'?" in sokovan("help", "exit-code")[2]
