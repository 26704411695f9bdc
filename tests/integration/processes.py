"""Processes for tests: started in milliseconds from a warm parent, watched, and always ended.

A fork server has the modules loaded already; it has no threads, so that its children start clean.
"""

import asyncio
import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Coroutine, Sequence
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from sokovan.adapters.local.clock import SystemClock

R = TypeVar("R")

# A process that takes longer than this hangs.
LIMIT_S = 600.0
END_LIMIT_S = 180.0
_WARM = [
    "pytest",
    "sokovan.testing.stored_cluster",
    "tests.integration.configuration_writer",
    "tests.integration.racing",
    "tests.integration.embedded_work",
    "tests.integration.late_leader",
    "tests.integration.warmed_up",
]

Work = Callable[..., Coroutine[Any, Any, R]]


class Child(Generic[R]):
    """A process that runs `work(line, *arguments)`; `line` leads to the parent and back."""

    def __init__(self, work: Work[R], *arguments: Any) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(_WARM)
        self.line, far_line = context.Pipe()
        self.answer, far_answer = context.Pipe(duplex=False)
        self._process = context.Process(
            target=_run, args=(work, far_line, far_answer, arguments), name=work.__name__, daemon=True
        )
        self._process.start()
        far_line.close()
        far_answer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.kill()
        self.line.close()
        self.answer.close()
        self._process.close()

    def kill(self) -> None:
        """End it at once, wherever it is."""
        if self._process.is_alive():
            self._process.kill()
        self._process.join(END_LIMIT_S)

    def send_signal(self, number: signal.Signals) -> None:
        """Stop it or let it go on."""
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def result(self, *, limit_s: float = LIMIT_S) -> R:
        """The result of the work; AssertionError with its trace if it raised, died or hangs."""
        assert self.answer.poll(limit_s), f"{self._process.name} is not done after {limit_s:.0f} s"
        return self._received()

    def _received(self) -> R:
        try:
            result, trouble = self.answer.recv()
        except EOFError:
            raise AssertionError(f"{self._process.name} died without an answer") from None
        assert trouble is None, f"{self._process.name} raised:\n{trouble}"
        answer: R = result
        return answer


def results(children: Sequence[Child[R]], *, limit_s: float = LIMIT_S) -> list[R]:
    """The results of all children; the first error of any of them is raised at once."""
    clock = SystemClock()
    deadline = clock.monotonic_ms() + int(limit_s * 1000)
    found: dict[int, R] = {}
    waiting = {child.answer: index for index, child in enumerate(children)}
    while waiting:
        left = (deadline - clock.monotonic_ms()) / 1000
        ready = wait(list(waiting), timeout=max(0.0, left))
        assert ready, f"{len(waiting)} of {len(children)} children are not done after {limit_s:.0f} s"
        for answer in ready:
            assert isinstance(answer, Connection)
            index = waiting.pop(answer)
            found[index] = children[index].result()
    return [found[index] for index in range(len(children))]


def _run(work: Work[R], line: Connection, answer: Connection, arguments: tuple[Any, ...]) -> None:
    try:
        answer.send((asyncio.run(work(line, *arguments)), None))
    except BaseException:  # noqa: BLE001  # whatever it is, the parent must hear of it
        answer.send((None, traceback.format_exc()))
