"""An agent's link to a manager that works, misbehaves, or is absent."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from http import HTTPStatus
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Response as HttpResponse

from sokovan.adapters.local.clock import SystemClock
from sokovan.agent.link.manager_link import (
    PATIENCE_MAX,
    RETRY_MOST_S,
    STABLE_AFTER_MS,
    Backoff,
    LinkAttempt,
    ManagerAddress,
    ManagerLink,
    Reconnects,
    UnsafeAddress,
)
from sokovan.wire.frames import (
    LINK_PATH,
    PROTOCOL,
    Done,
    ForgetKernel,
    Frame,
    Heartbeat,
    Hello,
    HelloRefused,
    ReportNow,
    Request,
    RequestFailed,
    Response,
    Welcome,
)
from sokovan.wire.link_codec import decode, encode
from tests.integration.agent_rig import comes_true

HELLO = Hello(agent_id="a1", software="1")
WELCOME = Welcome(incarnation=1, heartbeat_s=60.0)
ASK = Request(number=1, incarnation=1, allowed_ms=5000, command=ForgetKernel("k1", 1))


class RecordingHandler:
    """An agent that only records the calls of its link."""

    def __init__(self) -> None:
        self.welcomes: list[Welcome] = []
        self.requests: list[Request] = []
        self.told: list[str] = []
        self.hellos = 0
        self.beats = 0
        self.closings = 0

    def hello(self) -> Hello:
        self.hellos += 1
        return HELLO

    def heartbeat(self) -> Heartbeat:
        self.beats += 1
        return Heartbeat(incarnation=1, sequence=self.beats)

    def opened(self, link: ManagerLink, welcome: Welcome) -> None:
        link.number += 1
        self.welcomes.append(welcome)

    def requested(self, _link: ManagerLink, request: Request) -> None:
        self.requests.append(request)

    def closed(self, _link: ManagerLink) -> None:
        self.closings += 1

    def log(self, line: str) -> None:
        self.told.append(line)


class Far:
    """A manager that sends what the test says, and records what it receives."""

    def __init__(self) -> None:
        self.first: Frame | bytes = WELCOME
        self.heard: list[Frame] = []
        self.headers: list[str] = []
        self.sockets: list[ServerConnection] = []
        self.server: Server | None = None

    async def serve(self, socket: ServerConnection) -> None:
        assert socket.request is not None
        assert socket.request.path == LINK_PATH
        self.headers.append(socket.request.headers["Authorization"])
        self.heard.append(decode(_bytes(await socket.recv(decode=False))))
        await socket.send(self.first if isinstance(self.first, bytes) else encode(self.first))
        self.sockets.append(socket)
        with suppress(ConnectionClosed):
            while True:
                self.heard.append(decode(_bytes(await socket.recv(decode=False))))

    async def says(self, frame: Frame) -> None:
        await self.sockets[-1].send(encode(frame))

    def of(self, kind: type[Frame]) -> list[Frame]:
        return [frame for frame in self.heard if isinstance(frame, kind)]


def _bytes(content: str | bytes) -> bytes:
    assert isinstance(content, bytes)
    return content


class Rig:
    def __init__(self, far: Far, port: int) -> None:
        self.far, self.handler = far, RecordingHandler()
        address = ManagerAddress(f"ws://127.0.0.1:{port}/", "secret")
        self.link = ManagerLink(address, self.handler, SystemClock(), jitter=lambda: 0.0)
        self.task = asyncio.ensure_future(self.link.run(backoff=Backoff(first_s=0.01, most_s=0.05)))

    async def opened(self) -> None:
        await comes_true(lambda: self.handler.welcomes and self.far.sockets)

    def opened_times(self, times: int) -> bool:
        return len(self.far.sockets) == times == len(self.handler.welcomes)


@asynccontextmanager
async def linked(prepare: Callable[[Far], None] = lambda _far: None) -> AsyncIterator[Rig]:
    far = Far()
    prepare(far)
    async with serve(far.serve, "127.0.0.1", 0, compression=None, close_timeout=0.1) as server:
        far.server = server
        rig = Rig(far, next(iter(server.sockets)).getsockname()[1])
        try:
            yield rig
        finally:
            rig.task.cancel()
            await asyncio.gather(rig.task, return_exceptions=True)


async def test_a_link_begins_with_hello_and_the_credential() -> None:
    async with linked() as rig:
        await rig.opened()

        assert rig.far.heard[0] == HELLO
        assert rig.far.headers == ["Bearer secret"]
        assert rig.handler.welcomes == [WELCOME]


async def test_a_request_is_answered_or_refused() -> None:
    async with linked() as rig:
        await rig.opened()
        await rig.far.says(ASK)
        await comes_true(lambda: rig.handler.requests == [ASK])
        rig.link.answer(1, Done())
        rig.link.answer(1, Done())
        rig.link.problem(2, "x", "nobody asked")
        await comes_true(lambda: rig.far.of(Response))

        assert rig.far.of(Response) == [Response(1, Done())]
        assert rig.far.of(RequestFailed) == []


async def test_heartbeats_come_by_the_clock_and_when_something_changed() -> None:
    def fast(far: Far) -> None:
        far.first = Welcome(incarnation=1, heartbeat_s=0.05)

    async with linked(fast) as rig:
        await comes_true(lambda: len(rig.far.of(Heartbeat)) >= 3)
    async with linked() as rig:
        await rig.opened()
        rig.link.send_heartbeat()
        await comes_true(lambda: len(rig.far.of(Heartbeat)) == 1)
        await rig.far.says(ReportNow())
        await comes_true(lambda: len(rig.far.of(Heartbeat)) == 2)


async def test_many_changes_share_a_heartbeat() -> None:
    async with linked() as rig:
        await rig.opened()
        for _ in range(1000):
            rig.link.send_heartbeat()
        await comes_true(lambda: rig.far.of(Heartbeat))
        await rig.far.says(ASK)
        await comes_true(lambda: rig.handler.requests)

        assert rig.handler.beats <= 2


async def test_a_broken_link_reconnects() -> None:
    async with linked() as rig:
        for times in range(1, 4):
            await comes_true(partial(rig.opened_times, times))
            rig.far.sockets[-1].transport.abort()
        await comes_true(lambda: len(rig.handler.welcomes) == 4)

        assert rig.handler.closings == 3


async def test_an_absent_manager_is_retried_until_it_appears() -> None:
    async with linked() as rig:
        await rig.opened()
        assert rig.far.server is not None
        rig.far.server.close()
        await comes_true(lambda: len(rig.handler.told) >= 3)

        assert "Connect call failed" in rig.handler.told[-1]


async def test_a_refusal_is_logged_and_retried_later() -> None:
    def refusing(far: Far) -> None:
        far.first = HelloRefused(code="draining", message="come back later")

    async with linked(refusing) as rig:
        await comes_true(lambda: rig.handler.hellos >= 3)

        assert "come back later" in rig.handler.told[0]
        assert not rig.handler.welcomes
        assert rig.handler.closings == 0


@pytest.mark.parametrize("first", [b"\x01rubbish", bytes((PROTOCOL + 1,)) + b"?", Heartbeat(incarnation=1, sequence=1)])
async def test_a_manager_that_sends_nonsense_is_disconnected_and_retried(first: Frame | bytes) -> None:
    def prepared(far: Far) -> None:
        far.first = first

    async with linked(prepared) as rig:
        await comes_true(lambda: rig.handler.hellos >= 2)

        assert rig.handler.told
        assert not rig.handler.welcomes


async def test_a_frame_out_of_place_ends_the_link() -> None:
    async with linked() as rig:
        await rig.opened()
        await rig.far.says(HELLO)
        await comes_true(lambda: rig.handler.closings == 1)

        assert "unexpected Hello" in rig.handler.told[0]


async def test_what_is_not_answered_on_one_link_is_not_answered_on_the_next() -> None:
    async with linked() as rig:
        await rig.opened()
        await rig.far.says(ASK)
        await comes_true(lambda: rig.handler.requests)
        rig.far.sockets[-1].transport.abort()
        await comes_true(lambda: len(rig.far.sockets) == 2 and len(rig.handler.welcomes) == 2)
        rig.link.answer(1, Done())
        rig.link.send_heartbeat()
        await comes_true(lambda: rig.far.of(Heartbeat))

        assert rig.far.of(Response) == []


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for this machine's loopback address, and its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl here to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    made, key = folder / "certificate.pem", folder / "key.pem"
    command = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=manager"
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(made)]
    subprocess.run([openssl, *command.split(), *names], check=True, capture_output=True)
    return made, key


@pytest.mark.slow
@pytest.mark.parametrize("trusted", [True, False])
async def test_a_manager_with_tls_is_linked_to_only_if_its_certificate_is_trusted(
    certificate: tuple[Path, Path], trusted: bool
) -> None:
    made, key = certificate
    ours, theirs = ssl.create_default_context(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    theirs.load_cert_chain(made, key)
    if trusted:
        ours.load_verify_locations(made)
    far, handler = Far(), RecordingHandler()
    async with serve(far.serve, "127.0.0.1", 0, compression=None, close_timeout=0.1, ssl=theirs) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        address = ManagerAddress(f"wss://127.0.0.1:{port}", "secret", tls=ours)
        task = asyncio.ensure_future(ManagerLink(address, handler, SystemClock(), jitter=lambda: 0.0).run())
        await comes_true(lambda: handler.welcomes or any("CERTIFICATE_VERIFY_FAILED" in line for line in handler.told))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    assert bool(handler.welcomes) is trusted
    assert far.headers == (["Bearer secret"] if trusted else [])


@pytest.mark.parametrize("url", ["http://localhost", "ws://", "manager:8000", "ws://10.0.0.1:80"])
def test_an_address_that_would_give_the_credential_away_is_refused(url: str) -> None:
    with pytest.raises(UnsafeAddress):
        ManagerAddress(url, "secret")


@pytest.mark.parametrize("url", ["ws://localhost:1", "ws://[::1]:1", "wss://manager.example.org"])
def test_an_address_on_this_machine_or_with_tls_is_taken(url: str) -> None:
    assert "secret" not in repr(ManagerAddress(url, "secret"))


def test_plaintext_needs_an_explicit_option() -> None:
    assert ManagerAddress("ws://10.0.0.1:80", "secret", plaintext=True).plaintext


async def test_a_door_that_stays_shut_says_why() -> None:
    handler = RecordingHandler()

    def shut(socket: ServerConnection, _request: object) -> HttpResponse:
        return socket.respond(HTTPStatus.UNAUTHORIZED, "this credential opens nothing here\n")

    async def nobody_comes(_socket: ServerConnection) -> None:
        pass

    async with serve(nobody_comes, "127.0.0.1", 0, process_request=shut) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        link = ManagerLink(ManagerAddress(f"ws://127.0.0.1:{port}", "x"), handler, SystemClock(), jitter=lambda: 0.0)
        dialling = asyncio.ensure_future(link.run())
        await comes_true(lambda: bool(handler.told))
        dialling.cancel()
    assert handler.told[0].endswith("refuses this agent: this credential opens nothing here")
    assert handler.hellos == 0


class NotedClock(SystemClock):
    """A clock whose sleeps are noted, and never end."""

    def __init__(self) -> None:
        super().__init__()
        self.slept_s: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("asked", "slept_s"), [("7", 10.5), ("999", RETRY_MOST_S * 1.5), ("soon", 0.2), ("-1", 0.2), ("0", 0.2)]
)
async def test_an_agent_comes_again_when_a_manager_without_room_asks_it_to(asked: str, slept_s: float) -> None:
    def full(socket: ServerConnection, _request: object) -> HttpResponse:
        response = socket.respond(HTTPStatus.SERVICE_UNAVAILABLE, "too many agents are connecting\n")
        response.headers["Retry-After"] = asked
        return response

    async def nobody_comes(_socket: ServerConnection) -> None:
        pass

    clock = NotedClock()
    async with serve(nobody_comes, "127.0.0.1", 0, process_request=full) as server:
        address = ManagerAddress(f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}", "x")
        link = ManagerLink(address, RecordingHandler(), clock, jitter=lambda: 1.0)
        dialling = asyncio.ensure_future(link.run())
        await comes_true(lambda: bool(clock.slept_s))
        dialling.cancel()
    assert clock.slept_s == [pytest.approx(slept_s)]


async def test_a_manager_that_does_not_answer_in_time_gets_twice_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    given_s: list[float] = []

    def too_late(_address: ManagerAddress, _path: str, *, open_s: float) -> None:
        given_s.append(open_s)
        raise TimeoutError("timed out during opening handshake")

    monkeypatch.setattr("sokovan.agent.link.manager_link.dialled", too_late)
    link = ManagerLink(ManagerAddress("ws://127.0.0.1:9", "x"), RecordingHandler(), SystemClock(), jitter=lambda: 0.0)
    dialling = asyncio.ensure_future(link.run(backoff=Backoff(first_s=0.001, most_s=0.002)))
    await comes_true(lambda: len(given_s) >= 6)
    dialling.cancel()
    assert given_s[:6] == [10.0, 20.0, 40.0, 80.0, 80.0, 80.0]


def test_a_link_that_opens_ends_the_patience() -> None:
    redialling = Reconnects(Backoff())
    for _ in range(9):
        redialling.note(LinkAttempt(late=True))
    redialling.note(LinkAttempt())  # it refuses: nothing is known about its time
    assert redialling.patience == PATIENCE_MAX
    redialling.note(LinkAttempt(opened_ms=1))
    assert redialling.patience == 1


def test_the_wait_doubles_up_to_the_longest() -> None:
    waits = Backoff(first_s=1.0, most_s=10.0)

    assert [waits.delay_s(failures, jitter=1.0) for failures in range(6)] == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


@given(st.integers(0, 10**9), st.floats(0, 1, exclude_max=True))
def test_the_wait_is_never_longer_than_the_longest_nor_shorter_than_half_of_the_first(
    failures: int, jitter: float
) -> None:
    waits = Backoff(first_s=0.5, most_s=30.0)

    assert 0.25 <= waits.delay_s(failures, jitter=jitter) <= 30.0


def test_two_agents_of_different_jitter_do_not_reconnect_together() -> None:
    assert Backoff().delay_s(3, jitter=0.1) != Backoff().delay_s(3, jitter=0.9)


def pauses(redialling: Reconnects, *lasted_ms: int | None) -> list[float]:
    return [redialling.delay_s(lasted, jitter=1.0) for lasted in lasted_ms]


def test_an_absent_manager_is_retried_less_and_less_often() -> None:
    away = Reconnects(Backoff(first_s=1.0, most_s=30.0))

    assert pauses(away, *[None] * 7) == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


def test_a_welcome_resets_the_count_of_failures() -> None:
    redialling = Reconnects(Backoff(first_s=1.0, most_s=30.0))

    assert pauses(redialling, *[None] * 6, 100, None, None) == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 1.0, 1.0, 2.0]


def test_a_manager_that_crashes_after_each_welcome_is_retried_with_a_bounded_delay() -> None:
    dying = Reconnects(Backoff(first_s=1.0, most_s=30.0, welcomed_most_s=5.0))
    # In between it is not there for a moment, as it is while it starts again.
    found = pauses(dying, *[100, None] * 6)

    assert found[::2] == [1.0, 2.0, 4.0, 5.0, 5.0, 5.0]
    assert found[1::2] == [1.0] * 6


def test_a_link_that_lasted_forgives_everything() -> None:
    redialling = Reconnects(Backoff(first_s=1.0))

    assert pauses(redialling, 100, 100, 100, STABLE_AFTER_MS, 100) == [1.0, 2.0, 4.0, 1.0, 1.0]


def test_an_agent_with_a_short_patience_keeps_to_it() -> None:
    assert Backoff(first_s=1.0, most_s=2.0).delay_s(9, jitter=1.0, welcomed=True) == 2.0
