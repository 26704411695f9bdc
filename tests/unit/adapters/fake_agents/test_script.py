"""How a command would go, by its words alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.adapters.fake_agents.script import Conduct, conduct_of


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["sleep", "3"], Conduct(3.0)),
        (["/usr/bin/sleep", "0.5"], Conduct(0.5)),
        (["sleep", "1m", "2s", ".5"], Conduct(62.5)),
        (["sleep", "infinity"], Conduct(None)),
        (["sleep"], Conduct(0.0, 1)),
        (["sleep", "long"], Conduct(0.0, 1)),
        (["exit", "3"], Conduct(0.0, 3)),
        (["exit", "256"], Conduct(0.0, 0)),
        (["exit"], Conduct(0.0, 0)),
        (["true"], Conduct(0.0, 0)),
        (["false"], Conduct(0.0, 1)),
        (["bash"], Conduct(None)),
        ([], Conduct(None)),
        (["sh", "-c", "sleep 2; exit 3; sleep 600"], Conduct(2.0, 3)),
        (["bash", "-c", "echo hello && exec sleep 3600"], Conduct(3600.0)),
        (["sh", "-c", "sleep 1\nfalse"], Conduct(1.0, 1)),
        (["sh", "-c", "exec sleep infinity"], Conduct(None)),
        (["sh", "-c", "echo 'no end"], Conduct(5.0)),
        (["sh", "script.sh"], Conduct(5.0)),
        (["python", "train.py"], Conduct(5.0)),
        (["sh", "-c", ""], Conduct(0.0)),
    ],
)
def test_a_command_goes_as_one_expects(command: list[str], expected: Conduct) -> None:
    assert conduct_of(command) == expected


def test_work_takes_as_long_as_it_is_told_to() -> None:
    assert conduct_of(["python", "train.py"], work_s=60.0) == Conduct(60.0)


@given(st.lists(st.text(), max_size=4))
def test_any_words_are_some_conduct(command: list[str]) -> None:
    conduct = conduct_of(command)
    assert conduct.lasts_s is None or conduct.lasts_s >= 0
    assert 0 <= conduct.exit_code <= 255


@given(st.text())
def test_any_script_is_some_conduct(script: str) -> None:
    assert 0 <= conduct_of(["sh", "-c", script]).exit_code <= 255
