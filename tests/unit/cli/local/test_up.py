"""`sokovan up`: what it hands over."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sokovan.entrypoints.up import UpOptions
from tests.unit.cli.canned_server import Sokovan


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[UpOptions]:
    """What `run_up` would be asked for."""
    found: list[UpOptions] = []

    def up(options: UpOptions, *, say: Callable[[str], None]) -> int:
        found.append(options)
        say("ready")
        return 0

    monkeypatch.setattr("sokovan.entrypoints.up.run_up", up)
    return found


def test_without_options_it_is_the_usual_port_and_an_agent(sokovan: Sokovan, asked: list[UpOptions]) -> None:
    assert sokovan("up") == (0, "", "ready\n")
    assert asked == [UpOptions(port=7646, data=None, pretended=None, fake_gpus=0, agent=True)]


def test_every_option_is_handed_over(sokovan: Sokovan, asked: list[UpOptions]) -> None:
    words = ("--port", "0", "--data", "d", "--fake", "64x8", "--fake-gpus", "4", "--no-agent", "--name", "n1")
    assert sokovan("up", *words)[0] == 0
    assert asked == [UpOptions(port=0, data=Path("d"), pretended=(64, 8), fake_gpus=4, agent=False, name="n1")]


@pytest.mark.parametrize(
    "words",
    [
        ("--port", "70000"),
        ("--port", "-1"),
        ("--port", "web"),
        ("--fake", "64"),
        ("--fake", "0x8"),
        ("--fake", "ax8"),
        ("--fake", "9999999x8"),
        ("--fake-gpus", "-1"),
        ("--open",),
    ],
)
def test_what_cannot_be_taken_is_a_usage_error(
    sokovan: Sokovan, asked: list[UpOptions], words: tuple[str, ...]
) -> None:
    status, out, err = sokovan("up", *words)
    assert (status, out, asked) == (2, "", [])
    assert "hint:" in err
