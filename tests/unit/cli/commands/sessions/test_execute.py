"""`sokovan exec`."""

from __future__ import annotations

import io
import sys

import pytest

from tests.unit.cli.canned_server import Sokovan
from tests.unit.sdk.fake_websocket import fake_websocket


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard input without a terminal."""
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    monkeypatch.setenv("SOKOVAN_TOKEN", "good")


def test_the_exit_code_of_the_command_is_returned(sokovan: Sokovan, monkeypatch: pytest.MonkeyPatch) -> None:
    with fake_websocket() as (fake, endpoint):
        monkeypatch.setenv("SOKOVAN_URL", endpoint.url)
        assert sokovan("exec", "ddp", "--kernel", "2", "--", "7", "-x", "--json") == (7, "", "")
    assert fake.opened == [{"command": ["7", "-x", "--json"]}]
    assert fake.paths == ["/api/v1/sessions/ddp/kernels/2/exec"]


@pytest.mark.parametrize("word", ["refuse", "vanish"])
def test_a_client_failure_is_125(sokovan: Sokovan, monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    with fake_websocket() as (_, endpoint):
        monkeypatch.setenv("SOKOVAN_URL", endpoint.url)
        status, _, err = sokovan("exec", "ddp", "--", word)
    assert status == 125
    assert err.startswith("error: ")


def test_an_unreachable_server_is_125_too(sokovan: Sokovan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOKOVAN_URL", "http://127.0.0.1:1")
    assert sokovan("exec", "ddp", "--", "x")[0] == 125


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("ddp",), "no command given"),
        (("ddp", "--kernel", "-1", "--", "x"), "--kernel -1"),
        (("-t", "ddp", "--", "x"), "standard input is not a terminal"),
        ((), "requires"),
    ],
)
def test_an_invalid_command_is_a_usage_error(sokovan: Sokovan, words: tuple[str, ...], message: str) -> None:
    status, _, err = sokovan("exec", *words)
    assert status == 2
    assert message in err
