"""Copies under way: complete, or begun again."""

from __future__ import annotations

from pathlib import Path

from sokovan.adapters.docker.log_copies import LogCopies
from sokovan.adapters.process.layout import KernelLayout
from tests.unit.adapters.docker.canned_engine import canned_engine, frame

STATE = {"container": "c"}


async def test_a_copy_that_failed_is_begun_again(tmp_path: Path) -> None:
    layout = KernelLayout(tmp_path)
    layout.prepare()
    (layout.kernels / "k-1").mkdir()
    async with canned_engine({"GET /containers/c/json": (500, {"message": "not now"})}) as engine:
        copies = LogCopies(engine.client, layout)
        assert not await copies.drained("k-1")
        copies.follow("k-1", {}, STATE)
        assert not await copies.drained("k-1")
        engine.answers["GET /containers/c/json"] = (200, {"State": {"Running": False}})
        engine.answers["GET /containers/c/logs"] = (200, frame(b"said"))
        copies.follow("k-1", {}, STATE)
        assert await copies.drained("k-1")
        asked = len(engine.asked)
        copies.follow("k-1", {}, STATE)  # complete
        assert await copies.drained("k-1")
        assert len(engine.asked) == asked
        copies.close()


async def test_nothing_is_left_to_copy_of_a_container_that_is_gone(tmp_path: Path) -> None:
    layout = KernelLayout(tmp_path)
    layout.prepare()
    (layout.kernels / "k-1").mkdir()
    async with canned_engine() as engine:
        copies = LogCopies(engine.client, layout)
        copies.follow("k-1", {}, STATE)
        assert await copies.drained("k-1")
