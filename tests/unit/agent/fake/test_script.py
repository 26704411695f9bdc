"""Commands are simulated by their arguments alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.agent.fake.script import KernelScript, script_of


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["sleep", "3"], KernelScript(3.0)),
        (["/usr/bin/sleep", "0.5"], KernelScript(0.5)),
        (["sleep", "1m", "2s", ".5"], KernelScript(62.5)),
        (["sleep", "infinity"], KernelScript(None)),
        (["sleep"], KernelScript(0.0, 1)),
        (["sleep", "long"], KernelScript(0.0, 1)),
        (["exit", "3"], KernelScript(0.0, 3)),
        (["exit", "256"], KernelScript(0.0, 0)),
        (["exit"], KernelScript(0.0, 0)),
        (["true"], KernelScript(0.0, 0)),
        (["false"], KernelScript(0.0, 1)),
        (["bash"], KernelScript(None)),
        ([], KernelScript(None)),
        (["sh", "-c", "sleep 2; exit 3; sleep 600"], KernelScript(2.0, 3)),
        (["bash", "-c", "echo hello && exec sleep 3600"], KernelScript(3600.0)),
        (["sh", "-c", "sleep 1\nfalse"], KernelScript(1.0, 1)),
        (["sh", "-c", "exec sleep infinity"], KernelScript(None)),
        (["sh", "-c", "echo 'no end"], KernelScript(5.0)),
        (["sh", "script.sh"], KernelScript(5.0)),
        (["python", "train.py"], KernelScript(5.0)),
        (["sh", "-c", ""], KernelScript(0.0)),
    ],
)
def test_a_command_goes_as_one_expects(command: list[str], expected: KernelScript) -> None:
    assert script_of(command) == expected


def test_other_work_takes_the_configured_time() -> None:
    assert script_of(["python", "train.py"], work_s=60.0) == KernelScript(60.0)


@pytest.mark.slow
@given(st.lists(st.text(), max_size=4))
def test_any_command_has_a_script(command: list[str]) -> None:
    simulated = script_of(command)
    assert simulated.lasts_s is None or simulated.lasts_s >= 0
    assert 0 <= simulated.exit_code <= 255


@given(st.text())
def test_any_script_has_a_simulation(script: str) -> None:
    assert 0 <= script_of(["sh", "-c", script]).exit_code <= 255
