"""The records of containers in the folders of kernels."""

from __future__ import annotations

from pathlib import Path

from sokovan.adapters.docker.kernel_records import KernelRecords, observation_of
from sokovan.adapters.process.layout import KernelLayout
from sokovan.ports.runtime import KernelState


def test_a_state_is_kept_in_the_folder_of_its_kernel(tmp_path: Path) -> None:
    layout = KernelLayout(tmp_path)
    layout.prepare()
    records = KernelRecords(layout)
    assert records.state("k-1") is None
    (layout.kernels / "k-1").mkdir()
    records.write_state("k-1", {"started_ms": 5})
    assert records.state("k-1") == {"started_ms": 5}
    assert records.launch("k-1") is None
    assert records.checkpoint("k-1", 9) is None


def test_an_observation_follows_from_the_records() -> None:
    launch = {"kernel_id": "k", "attempt": 3, "confinement": "containers"}
    states = [{}, {"started_ms": 1}, {"started_ms": 1, "stopping_ms": 2}, {"started_ms": 1, "ended_ms": 3}]
    seen = [observation_of(launch, state, None, "traces") for state in states]
    assert [one.state for one in seen] == [
        KernelState.STARTING,
        KernelState.RUNNING,
        KernelState.STOPPING,
        KernelState.EXITED,
    ]
    assert [one.traces for one in seen] == ["traces", "traces", "traces", ""]
    assert (seen[0].kernel_id, seen[0].attempt, seen[0].confinement) == ("k", 3, "containers")
