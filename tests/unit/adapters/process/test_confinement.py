"""What holds a kernel is said in words, and nothing is claimed that was not tried."""

from __future__ import annotations

import pytest

from sokovan.adapters.process import confinement as module
from sokovan.adapters.process.confinement import confinement
from sokovan.adapters.process.hierarchies import Hierarchies


def test_a_machine_says_what_it_has() -> None:
    words = confinement(bubblewrap="there-is-no-such-program").in_words()
    assert words.startswith("no sandbox: bubblewrap is not installed; ")
    assert "cgroup" in words


def test_a_sandbox_can_be_switched_off() -> None:
    found = confinement(bubblewrap="")
    assert found.sandbox.program == ""
    assert found.in_words().startswith("no sandbox: it is switched off; ")


@pytest.mark.parametrize("trouble", [FileNotFoundError("/proc"), ValueError("another form")])
def test_a_machine_that_tells_nothing_has_nothing(monkeypatch: pytest.MonkeyPatch, trouble: Exception) -> None:
    def tell() -> Hierarchies:
        raise trouble

    monkeypatch.setattr(module, "found_hierarchies", tell)
    assert confinement(bubblewrap="").hierarchies == Hierarchies()
