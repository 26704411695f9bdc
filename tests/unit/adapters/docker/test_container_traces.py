"""The traces of a container: its name, and the proof that it is gone."""

from __future__ import annotations

from pathlib import Path

from sokovan.adapters.docker.container_traces import container_of, remains_of, runtime_mark, started_state, traces_of
from tests.unit.adapters.docker.canned_engine import canned_engine


def test_the_traces_of_a_kernel_name_its_container_on_this_root(tmp_path: Path) -> None:
    name = container_of(traces_of(tmp_path, "k", 1))
    assert name.startswith(f"sokovan-{runtime_mark(tmp_path)}-")
    assert name != container_of(traces_of(tmp_path / "other", "k", 1))


def test_a_started_container_has_its_id_and_process() -> None:
    state = started_state({"Id": "c", "State": {"Pid": 0}}, 5)
    assert (state["started_ms"], state["container"], state["pid"], state["pid_start"]) == (5, "c", 0, 0)


async def test_only_an_absent_container_is_a_proof() -> None:
    async with canned_engine({"DELETE /containers/c": (204, None), "GET /containers/c/json": (200, {})}) as engine:
        assert "still there" in await remains_of(engine.client, "c")
        assert await remains_of(engine.client, "gone") == ""
        silent = engine.client
    assert "may run" in await remains_of(silent, "c")
