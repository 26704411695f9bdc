"""Executes instructions on the runtime and reports their outcome as events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from sokovan.agent.journal_records import KernelKey
from sokovan.agent.messages import (
    EndRemainsInstruction,
    Event,
    ForgetInstruction,
    ImageProgressed,
    PrepareInstruction,
    RemainsEnded,
    StartFinished,
    StartInstruction,
    StopInstruction,
)
from sokovan.domain.errors import SokovanError
from sokovan.domain.records import DETAIL_MAX
from sokovan.ports.agent_gateway import ImageReport, ImageState
from sokovan.ports.runtime import ImageUnavailable, KernelRemains, KernelRuntime, RuntimeFailure
from sokovan.wire.frames import CreateKernel

RuntimeInstruction: TypeAlias = (
    StartInstruction | StopInstruction | ForgetInstruction | EndRemainsInstruction | PrepareInstruction
)


class Executor:
    """Runs instructions concurrently: a slow image does not delay kernels.

    `submit` takes the resulting events; `observe_soon` requests an observation, and `started`
    one of the end of a kernel that runs.
    """

    def __init__(
        self,
        runtime: KernelRuntime,
        *,
        submit: Callable[[Event], None],
        observe_soon: Callable[[], None],
        started: Callable[[], None],
        log: Callable[[str], None],
    ) -> None:
        self._runtime, self._submit, self._log = runtime, submit, log
        self._observe_soon, self._started = observe_soon, started
        self._tasks: set[asyncio.Task[None]] = set()
        self._images: set[str] = set()

    def execute(self, instruction: RuntimeInstruction) -> None:
        """Start executing an instruction, without waiting for it."""
        match instruction:
            case StartInstruction():
                self.begin(self._start(instruction.launch))
            case StopInstruction():
                self.begin(self._stop(instruction))
            case ForgetInstruction():
                self.begin(self._forget(instruction.key))
            case EndRemainsInstruction():
                self.begin(self._end_remains(instruction.key, instruction.traces))
            case PrepareInstruction() if instruction.image not in self._images:
                self._images.add(instruction.image)
                self.begin(self._prepare(instruction.image))
            case _:
                pass

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Run work concurrently in a task."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Cancel the tasks. The runtime finishes what it has begun."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _start(self, launch: CreateKernel) -> None:
        key = KernelKey.of(launch)
        try:
            traces = await self._runtime.create(launch)
        except RuntimeFailure as failure:
            self._submit(StartFinished(key, problem=failure.message, code=failure.code))
        except KernelRemains as failure:
            self._log(f"{key}: {failure.message}")
            self._submit(StartFinished(key, problem=failure.message, code=failure.code, certain=False))
        except Exception as problem:  # noqa: BLE001  # only an observation shows what runs now
            self._log(f"{key}: {problem!r}")
            self._submit(StartFinished(key, problem=repr(problem)[:DETAIL_MAX], code="runtime-failure", certain=False))
        else:
            self._submit(StartFinished(key, traces=traces))
            if traces:
                self._started()
                return
        self._observe_soon()

    async def _stop(self, stop: StopInstruction) -> None:
        key = stop.key
        work = self._runtime.stop(key.kernel_id, key.attempt, grace_s=stop.grace_s, notice=stop.notice)
        await self._logged(work, f"stopping {key}")
        self._observe_soon()

    async def _end_remains(self, key: KernelKey, traces: str) -> None:
        try:
            left = await self._runtime.end_remains(key.kernel_id, key.attempt, traces)
        except Exception as problem:  # noqa: BLE001  # not a proof: the next observation repeats it
            left = f"its remains cannot be ended: {problem!r}"[:DETAIL_MAX]
        if left:
            self._log(f"{key}: {left}")
        self._submit(RemainsEnded(key, left))

    async def _forget(self, key: KernelKey) -> None:
        await self._logged(self._runtime.forget(key.kernel_id, key.attempt), f"forgetting {key}")

    async def _logged(self, work: Coroutine[Any, Any, None], what: str) -> None:
        try:
            await work
        except Exception as problem:  # noqa: BLE001  # the manager repeats it; a failing runtime does not end the agent
            self._log(f"{what}: {problem!r}")

    async def _prepare(self, image: str) -> None:
        loop = asyncio.get_running_loop()

        def progress(line: str) -> None:  # a runtime may call it from another thread
            loop.call_soon_threadsafe(self._report_image, image, ImageState.PULLING, line)

        try:
            if not await self._runtime.has_image(image):
                self._report_image(image, ImageState.PULLING, "")
                await self._runtime.prepare_image(image, progress)
        except ImageUnavailable as failure:
            self._finish_image(image, ImageState.FAILED, failure.problem)
        except Exception as problem:  # noqa: BLE001  # any failure means that the image is not available
            detail = problem.message if isinstance(problem, SokovanError) else repr(problem)
            self._finish_image(image, ImageState.FAILED, detail)
        else:
            self._finish_image(image, ImageState.READY, "")

    def _finish_image(self, image: str, state: ImageState, detail: str) -> None:
        self._images.discard(image)
        self._report_image(image, state, detail)

    def _report_image(self, image: str, state: ImageState, detail: str) -> None:
        if state is ImageState.PULLING and image not in self._images:
            return  # progress that arrived after the end
        self._submit(ImageProgressed(ImageReport(image, state, detail[:DETAIL_MAX])))
