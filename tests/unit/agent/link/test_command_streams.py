"""Commands that an agent runs for a manager, each on a socket of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Self

import pytest
from websockets.asyncio.server import ServerConnection, serve

from sokovan.adapters.local.clock import SystemClock
from sokovan.agent.link import command_streams
from sokovan.agent.link.command_streams import (
    LOG_BYTES_MAX,
    BulkService,
    CommandStreams,
    StreamUnavailable,
)
from sokovan.agent.link.manager_link import ManagerAddress, ManagerLink
from sokovan.domain.ids import KernelId
from sokovan.ports.runtime import KernelExecution, KernelUse, LogPart, RuntimeFailure
from sokovan.wire.exec_messages import CommandEnded, InputEnded, Resized, decode_message, encode_message
from sokovan.wire.frames import (
    STREAM_PATH,
    ForgetKernel,
    Frame,
    LogData,
    MeasureKernel,
    OpenStream,
    ReadLog,
    Request,
    RequestFailed,
    Response,
    UseFigures,
    Welcome,
)
from sokovan.wire.link_session import AgentEnd
from tests.integration.tiny_runtime import TinyRuntime
from tests.unit.agent.link.test_manager_link import HELLO, RecordingHandler

ASK = OpenStream(stream_id="once", kernel_id="k1", attempt=1, command=("cat",), terminal=True)


class Command:
    """An Execution that does what the test says."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.sizes: list[tuple[int, int]] = []
        self.says: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.exit_code: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.entered, self.left = asyncio.Event(), asyncio.Event()
        self.problem: Exception | None = None

    async def __aenter__(self) -> Self:
        if self.problem is not None:
            raise self.problem
        self.entered.set()
        return self

    async def __aexit__(self, *_details: object) -> None:
        self.left.set()

    async def write(self, data: bytes) -> None:
        self.written.append(data)

    async def resize(self, *, rows: int, columns: int) -> None:
        self.sizes.append((rows, columns))

    async def output(self) -> AsyncIterator[bytes]:
        while (piece := await self.says.get()) is not None:
            yield piece

    async def wait(self) -> int:
        return await self.exit_code


class Runtime(TinyRuntime):
    """Runs the test's command for any request."""

    def __init__(self, root: Path, command: Command) -> None:
        super().__init__(root)
        self.command = command
        self.asked: list[tuple[str, int, tuple[str, ...], bool]] = []

    def execute(self, kernel_id: KernelId, attempt: int, command: Sequence[str], *, terminal: bool) -> KernelExecution:
        self.asked.append((kernel_id, attempt, tuple(command), terminal))
        return self.command

    def connect(self, kernel_id: KernelId, attempt: int, port: int) -> KernelExecution:
        self.asked.append((kernel_id, attempt, (f"port {port}",), False))
        return self.command


class Rig:
    """A manager that takes streams, and an agent's half of them."""

    def __init__(self, root: Path) -> None:
        self.command = Command()
        self.runtime = Runtime(root, self.command)
        self.streams = CommandStreams(self.runtime)
        self.arrived: asyncio.Queue[ServerConnection] = asyncio.Queue()
        self.opened: list[str] = []
        self.address = ManagerAddress("ws://127.0.0.1:1", "secret")
        self.running: list[asyncio.Task[None]] = []

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Self]:
        async with serve(self._process, "127.0.0.1", 0, compression=None, close_timeout=1) as server:
            port = next(iter(server.sockets)).getsockname()[1]
            self.address = ManagerAddress(f"ws://127.0.0.1:{port}", "secret")
            yield self
            for task in self.running:
                task.cancel()
            await asyncio.gather(*self.running, return_exceptions=True)

    async def _process(self, socket: ServerConnection) -> None:
        self.arrived.put_nowait(socket)
        await socket.wait_closed()

    def runs(self, ask: OpenStream = ASK) -> asyncio.Task[None]:
        task = asyncio.ensure_future(self.streams.run(self.address, ask, partial(self.opened.append, ask.stream_id)))
        self.running.append(task)
        return task

    async def socket(self) -> ServerConnection:
        return await asyncio.wait_for(self.arrived.get(), 60)


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with Rig(tmp_path).listening() as ready:
        yield ready


async def done(task: asyncio.Task[None]) -> None:
    async with asyncio.timeout(60):
        await task


async def test_the_agent_connects_with_its_credential_and_the_stream_id(rig: Rig) -> None:
    rig.runs()
    socket = await rig.socket()
    assert socket.request is not None
    assert socket.request.path == f"{STREAM_PATH}once"
    assert socket.request.headers["Authorization"] == "Bearer secret"
    assert rig.runtime.asked == [("k1", 1, ("cat",), True)]


async def test_a_request_with_a_port_is_a_connection_and_no_command(rig: Rig) -> None:
    rig.runs(OpenStream(stream_id="once", kernel_id="k1", attempt=2, port=8080))
    await rig.socket()
    assert rig.runtime.asked == [("k1", 2, ("port 8080",), False)]


async def test_input_and_messages_reach_the_command_and_its_output_comes_back(rig: Rig) -> None:
    task = rig.runs()
    socket = await rig.socket()
    await socket.send(b"input")
    await socket.send(encode_message(Resized(24, 80)))
    await socket.send(encode_message(InputEnded()))
    rig.command.says.put_nowait(b"output")
    assert await socket.recv() == b"output"
    rig.command.says.put_nowait(None)
    rig.command.exit_code.set_result(3)
    content = await socket.recv()
    assert isinstance(content, str)
    assert decode_message(content) == CommandEnded(3)
    await done(task)
    assert rig.command.written == [b"input", b""]
    assert rig.command.sizes == [(24, 80)]
    assert rig.opened == ["once"]
    assert rig.command.left.is_set()


async def test_a_manager_that_disconnects_ends_the_command(rig: Rig) -> None:
    task = rig.runs()
    socket = await rig.socket()
    await socket.close()
    await done(task)
    assert rig.command.left.is_set()


async def test_a_manager_that_talks_nonsense_ends_the_command(rig: Rig) -> None:
    task = rig.runs()
    await (await rig.socket()).send("nonsense")
    await done(task)
    assert rig.command.left.is_set()


async def test_what_a_command_leaves_behind_does_not_hold_its_end_up(rig: Rig) -> None:
    task = rig.runs()
    socket = await rig.socket()
    rig.command.exit_code.set_result(0)  # its output stays open, held by a background process
    content = await asyncio.wait_for(socket.recv(), 60)
    assert isinstance(content, str)
    assert decode_message(content) == CommandEnded(0)
    await done(task)


async def test_a_command_that_does_not_start_is_refused_before_a_connection(rig: Rig) -> None:
    rig.command.problem = RuntimeFailure("no such program")
    with pytest.raises(RuntimeFailure, match="no such program"):
        await done(rig.runs())
    assert rig.opened == []
    assert rig.arrived.empty()


async def test_a_command_ends_if_the_manager_cannot_be_reached(rig: Rig) -> None:
    rig.address = ManagerAddress("ws://127.0.0.1:1", "secret")
    with pytest.raises(StreamUnavailable):
        await done(rig.runs())
    assert rig.command.left.is_set()
    assert rig.opened == []


async def test_there_is_an_end_to_how_many_run_at_once(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_streams, "STREAMS_MAX", 4)
    tasks = [rig.runs() for _ in range(4)]
    for _ in tasks:
        await rig.socket()
    with pytest.raises(StreamUnavailable, match="4 commands run through this agent, the limit is 4"):
        await done(rig.runs())
    tasks[0].cancel()
    await asyncio.gather(tasks[0], return_exceptions=True)
    rig.runs()
    await rig.socket()


class Link(ManagerLink):
    """A link that was opened, and keeps what it would send."""

    def __init__(self) -> None:
        super().__init__(
            ManagerAddress("ws://127.0.0.1:1", "secret"), RecordingHandler(), SystemClock(), jitter=lambda: 0.0
        )
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


class LogRuntime(TinyRuntime):
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

    async def measure(self, kernel_id: KernelId, attempt: int) -> KernelUse:
        if kernel_id != "k1":
            return await super().measure(kernel_id, attempt)
        return KernelUse(5, cpu_ms=70, processes=attempt)


def reading(kernel_id: str, *, limit: int = 100) -> Request:
    return Request(number=1, incarnation=0, allowed_ms=5000, command=ReadLog(kernel_id, 1, 3, limit))


@pytest.fixture
async def runtime(tmp_path: Path) -> LogRuntime:
    return LogRuntime(tmp_path)


async def test_output_is_read_and_never_more_than_fits_a_frame(runtime: LogRuntime) -> None:
    link = Link()
    await BulkService(runtime).serve(link, link.takes(reading("k1", limit=1 << 40)))
    assert link.sent == [Response(1, LogData(3, b"x" * 10))]
    assert runtime.limit == LOG_BYTES_MAX


async def test_a_kernel_is_measured_and_one_that_does_not_run_is_a_problem(runtime: LogRuntime) -> None:
    for kernel_id, expected in (("k1", Response(1, UseFigures(5, cpu_ms=70, processes=2))), ("nobody", None)):
        link = Link()
        command = MeasureKernel(kernel_id, 2)
        request = Request(number=1, incarnation=0, allowed_ms=5000, command=command)
        await BulkService(runtime).serve(link, link.takes(request))
        [sent] = link.sent
        assert sent == expected or (expected is None and isinstance(sent, RequestFailed))


@pytest.mark.parametrize(("kernel_id", "code"), [("nobody", "runtime-failure"), ("broken", "runtime-failure")])
async def test_a_failed_request_is_answered_with_its_problem(runtime: Runtime, kernel_id: str, code: str) -> None:
    link = Link()
    await BulkService(runtime).serve(link, link.takes(reading(kernel_id)))
    [problem] = link.sent
    assert isinstance(problem, RequestFailed)
    assert (problem.number, problem.code) == (1, code)


async def test_a_command_that_cannot_run_is_refused(runtime: LogRuntime) -> None:
    link = Link()
    ask = OpenStream(stream_id="s", kernel_id="k1", attempt=1, command=("x",))
    request = link.takes(Request(number=1, incarnation=0, allowed_ms=5000, command=ask))
    await BulkService(runtime).serve(link, request)
    [problem] = link.sent
    assert isinstance(problem, RequestFailed)
    assert "runs no further commands" in problem.message


async def test_an_answer_does_not_reach_a_link_that_has_opened_anew(runtime: LogRuntime) -> None:
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


async def test_requests_for_the_supervisor_are_ignored(runtime: LogRuntime) -> None:
    link = Link()
    request = link.takes(Request(number=1, incarnation=1, allowed_ms=5000, command=ForgetKernel("k1", 1)))
    await BulkService(runtime).serve(link, request)
    assert link.sent == []
