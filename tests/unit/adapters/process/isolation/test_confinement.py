"""The description of the isolation claims only what was probed."""

from __future__ import annotations

from pathlib import Path

import pytest

from sokovan.adapters.process.isolation import confinement as module
from sokovan.adapters.process.isolation.cgroup_hierarchies import Hierarchies
from sokovan.adapters.process.isolation.confinement import Confinement, confinement
from sokovan.adapters.process.isolation.sandbox import Sandbox
from sokovan.domain.checks import require_labels


def test_a_machine_says_what_it_has() -> None:
    words = confinement(bubblewrap="there-is-no-such-program").in_words()
    assert words.startswith("no sandbox: bubblewrap is not installed, and folders")
    assert "cgroup" in words


def test_a_sandbox_can_be_switched_off() -> None:
    found = confinement(bubblewrap="")
    assert found.sandbox.program == ""
    assert found.in_words().startswith("no sandbox: it is disabled, ")


def test_the_isolation_of_kernels_is_in_labels_too() -> None:
    bare = Confinement(Sandbox(absence="bubblewrap\ndoes not run " + "x" * 500), Hierarchies())
    labels = bare.labels()
    assert (labels["sokovan.sandbox"], labels["sokovan.limits"]) == ("none", "rlimits")
    assert labels["sokovan.mounts"] == "in-place"
    assert labels["sokovan.confinement"].startswith("no sandbox: bubblewrap does not run")
    require_labels(labels, what="agent")
    held = Confinement(Sandbox("/usr/bin/bwrap"), Hierarchies(2, {"memory": Path("/sys/fs/cgroup")}))
    assert (held.labels()["sokovan.sandbox"], held.labels()["sokovan.limits"]) == ("bubblewrap", "cgroup-v2")
    assert held.labels()["sokovan.mounts"] == "anywhere"


@pytest.mark.parametrize("trouble", [FileNotFoundError("/proc"), ValueError("another form")])
def test_a_machine_without_proc_has_no_hierarchies(monkeypatch: pytest.MonkeyPatch, trouble: Exception) -> None:
    def tell() -> Hierarchies:
        raise trouble

    monkeypatch.setattr(module, "probe_hierarchies", tell)
    assert confinement(bubblewrap="").hierarchies == Hierarchies()
