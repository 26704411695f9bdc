"""The hands of an agent: they carry out instructions, and report what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from sokovan.agent.instructions import ForgetInstruction, PrepareInstruction, StartInstruction, StopInstruction
from sokovan.agent.journal_records import KernelKey
from sokovan.agent.messages import Event, ImageProgressed, StartFinished
from sokovan.domain.errors import SokovanError
from sokovan.ports.agent_gateway import ImageReport, ImageState
from sokovan.ports.runtime import ImageUnavailable, KernelRuntime, RuntimeFailure
from sokovan.wire.frames import CreateKernel

DETAIL_MAX = 2_000


class Executor:
    """Runs each instruction beside the others: a slow image delays no kernel.

    `submit` takes what comes of it; `look` asks for an observation soon.
    """

    def __init__(
        self,
        runtime: KernelRuntime,
        *,
        submit: Callable[[Event], None],
        look: Callable[[], None],
        tell: Callable[[str], None],
    ) -> None:
        self._runtime, self._submit, self._look, self._tell = runtime, submit, look, tell
        self._tasks: set[asyncio.Task[None]] = set()
        self._images: set[str] = set()

    def carry_out(
        self, instruction: StartInstruction | StopInstruction | ForgetInstruction | PrepareInstruction
    ) -> None:
        """Begin; it is done some time later."""
        match instruction:
            case StartInstruction():
                self.begin(self._start(instruction.launch))
            case StopInstruction():
                self.begin(self._stop(instruction.key, instruction.grace_s))
            case ForgetInstruction():
                self.begin(self._forget(instruction.key))
            case PrepareInstruction() if instruction.image not in self._images:
                self._images.add(instruction.image)
                self.begin(self._prepare(instruction.image))
            case _:
                pass

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something beside the rest."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Wait for nothing more. What the runtime has begun it ends by itself."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _start(self, launch: CreateKernel) -> None:
        key = KernelKey.of(launch)
        try:
            await self._runtime.create(launch)
        except RuntimeFailure as failure:
            self._submit(StartFinished(key, problem=failure.message, code=failure.code))
        except Exception as problem:  # noqa: BLE001  # whatever it was, only an observation tells what runs now
            self._tell(f"{key}: {problem!r}")
            self._submit(StartFinished(key, problem=repr(problem)[:DETAIL_MAX], code="runtime-failure", certain=False))
        else:
            self._submit(StartFinished(key))
        self._look()

    async def _stop(self, key: KernelKey, grace_s: float) -> None:
        await self._told(self._runtime.stop(key.kernel_id, key.attempt, grace_s=grace_s), f"stopping {key}")
        self._look()

    async def _forget(self, key: KernelKey) -> None:
        await self._told(self._runtime.forget(key.kernel_id, key.attempt), f"forgetting {key}")

    async def _told(self, work: Coroutine[Any, Any, None], what: str) -> None:
        try:
            await work
        except Exception as problem:  # noqa: BLE001  # it is asked for again; a defect of a runtime ends no agent
            self._tell(f"{what}: {problem!r}")

    async def _prepare(self, image: str) -> None:
        loop = asyncio.get_running_loop()

        def progress(line: str) -> None:  # a runtime may call it from a thread of its own
            loop.call_soon_threadsafe(self._moved, image, ImageState.PULLING, line)

        try:
            if not await self._runtime.has_image(image):
                self._moved(image, ImageState.PULLING, "")
                await self._runtime.prepare_image(image, progress)
        except ImageUnavailable as failure:
            self._last(image, ImageState.FAILED, failure.problem)
        except Exception as problem:  # noqa: BLE001  # whatever it was, the image is not there
            words = problem.message if isinstance(problem, SokovanError) else repr(problem)
            self._last(image, ImageState.FAILED, words)
        else:
            self._last(image, ImageState.READY, "")

    def _last(self, image: str, state: ImageState, detail: str) -> None:
        self._images.discard(image)
        self._moved(image, state, detail)

    def _moved(self, image: str, state: ImageState, detail: str) -> None:
        if state is ImageState.PULLING and image not in self._images:
            return  # a line that was overtaken by the end
        self._submit(ImageProgressed(ImageReport(image, state, detail[:DETAIL_MAX])))
