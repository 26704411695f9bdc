"""Requests that the runtime alone answers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sokovan.adapters.local.clock import SystemClock
from sokovan.agent.link.bulk import LOG_BYTES_MAX, BulkService
from sokovan.agent.link.manager_link import ManagerAddress, ManagerLink
from sokovan.domain.ids import KernelId
from sokovan.ports.runtime import LogPart
from sokovan.wire.frames import (
    ForgetKernel,
    Frame,
    LogData,
    OpenStream,
    ReadLog,
    Request,
    RequestFailed,
    Response,
    Welcome,
)
from sokovan.wire.link_session import AgentEnd
from tests.integration.tiny_runtime import TinyRuntime
from tests.unit.agent.link.test_manager_link import HELLO, Duty


class Link(ManagerLink):
    """A link that was opened, and keeps what it would send."""

    def __init__(self) -> None:
        super().__init__(ManagerAddress("ws://127.0.0.1:1", "secret"), Duty(), SystemClock(), chance=lambda: 0.0)
        self.number = 1
        self.sent: list[Frame] = []
        self.opens()

    def opens(self) -> None:
        self._session = AgentEnd()
        self._session.greet(HELLO)
        self._session.received(Welcome(incarnation=1, heartbeat_s=60.0), now_ms=0)

    def _queue(self, frame: Frame | None) -> None:
        self.sent.extend([frame] if frame is not None else [])

    def takes(self, request: Request) -> Request:
        self._session.received(request, now_ms=SystemClock().monotonic_ms())
        return request


class Runtime(TinyRuntime):
    """Notes what is read, and has as much output as anybody wants."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.limit = 0
        self.may_read = asyncio.Event()
        self.may_read.set()

    async def read_log(self, kernel_id: KernelId, attempt: int, *, offset: int, limit: int) -> LogPart:
        await self.may_read.wait()
        if kernel_id == "broken":
            raise OSError("a broken disk")
        if kernel_id != "k1":
            return await super().read_log(kernel_id, attempt, offset=offset, limit=limit)
        self.limit = limit
        return LogPart(offset, b"x" * min(limit, 10))


def reading(kernel_id: str, *, limit: int = 100) -> Request:
    return Request(number=1, incarnation=0, allowed_ms=5000, ask=ReadLog(kernel_id, 1, 3, limit))


@pytest.fixture
async def runtime(tmp_path: Path) -> Runtime:
    return Runtime(tmp_path)


async def test_output_is_read_and_never_more_than_fits_a_frame(runtime: Runtime) -> None:
    link = Link()
    await BulkService(runtime).serve(link, link.takes(reading("k1", limit=1 << 40)))
    assert link.sent == [Response(1, LogData(3, b"x" * 10))]
    assert runtime.limit == LOG_BYTES_MAX


@pytest.mark.parametrize(("kernel_id", "code"), [("nobody", "runtime-failure"), ("broken", "runtime-failure")])
async def test_who_asked_hears_what_went_wrong(runtime: Runtime, kernel_id: str, code: str) -> None:
    link = Link()
    await BulkService(runtime).serve(link, link.takes(reading(kernel_id)))
    [problem] = link.sent
    assert isinstance(problem, RequestFailed)
    assert (problem.number, problem.code) == (1, code)


async def test_a_command_that_cannot_be_run_is_told(runtime: Runtime) -> None:
    link = Link()
    ask = OpenStream(stream_id="s", kernel_id="k1", attempt=1, command=("x",))
    request = link.takes(Request(number=1, incarnation=0, allowed_ms=5000, ask=ask))
    await BulkService(runtime).serve(link, request)
    [problem] = link.sent
    assert isinstance(problem, RequestFailed)
    assert "runs no further commands" in problem.message


async def test_an_answer_does_not_reach_a_link_that_has_opened_anew(runtime: Runtime) -> None:
    link = Link()
    service = BulkService(runtime)
    for kernel_id in ("k1", "nobody"):
        runtime.may_read.clear()
        serving = asyncio.ensure_future(service.serve(link, reading(kernel_id)))
        await SystemClock().sleep(0)
        link.number += 1
        link.opens()
        link.takes(reading(kernel_id))  # the next link's first request has the same number
        runtime.may_read.set()
        await serving
    assert link.sent == []


async def test_what_needs_judgement_is_none_of_its_business(runtime: Runtime) -> None:
    link = Link()
    request = link.takes(Request(number=1, incarnation=1, allowed_ms=5000, ask=ForgetKernel("k1", 1)))
    await BulkService(runtime).serve(link, request)
    assert link.sent == []
