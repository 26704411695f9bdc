"""What hangs holds up nothing of another kind."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from sokovan.adapters.process.launch.starter import Starter
from sokovan.adapters.process.threads import Threads, Work
from sokovan.domain.ids import KernelId
from sokovan.wire.frames import CreateKernel
from tests.kernels import launch, runtime_in


async def test_work_of_one_kind_goes_on_while_all_threads_of_another_hang() -> None:
    threads, released = Threads(), threading.Event()
    hung = [asyncio.ensure_future(threads.run(Work.START, released.wait)) for _ in range(100)]
    try:
        for kind in set(Work) - {Work.START}:
            assert await asyncio.wait_for(threads.run(kind, "{}-{x}".format, kind, x=1), 60) == f"{kind}-1"
        assert not any(task.done() for task in hung)
    finally:
        released.set()
        assert all(await asyncio.gather(*hung))
        threads.close()


async def test_what_has_begun_ends_after_the_threads_are_closed() -> None:
    threads, has_begun, released = Threads(), threading.Event(), threading.Event()

    def work() -> bool:
        has_begun.set()
        return released.wait(60)

    begun = asyncio.ensure_future(threads.run(Work.END, work))
    assert await threads.run(Work.LOOK, has_begun.wait, 60)
    threads.close()
    released.set()
    assert await begun
    with pytest.raises(RuntimeError, match="after shutdown"):
        await threads.run(Work.LOOK, print)


@pytest.mark.slow
async def test_a_runtime_looks_and_ends_while_every_start_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()

    def hang(_starter: Starter, _launch: CreateKernel) -> str:
        released.wait(60)
        return "{}"

    async with runtime_in(tmp_path) as runtime:
        with monkeypatch.context() as patch:
            patch.setattr(Starter, "start", hang)
            starts = [asyncio.ensure_future(runtime.create(launch(f"k{number}", "pass"))) for number in range(40)]
            try:
                async with asyncio.timeout(60):
                    assert await runtime.observe() == []
                    await runtime.stop(KernelId("k0"), 1, grace_s=0)
                    assert await runtime.has_image("host")
                assert not any(start.done() for start in starts)
                await asyncio.wait_for(asyncio.to_thread(int), 60)
            finally:
                released.set()
                await asyncio.gather(*starts)
