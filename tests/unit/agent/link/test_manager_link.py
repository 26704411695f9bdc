"""An agent's link to a manager that keeps its word, breaks it, or is not there."""

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
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Response as HttpResponse

from sokovan.adapters.local.clock import SystemClock
from sokovan.agent.link.backoff import Backoff
from sokovan.agent.link.manager_link import ManagerAddress, ManagerLink, UnsafeAddress
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
ASK = Request(number=1, incarnation=1, allowed_ms=5000, ask=ForgetKernel("k1", 1))


class Duty:
    """An agent that only notes what its link tells it."""

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

    def asked(self, _link: ManagerLink, request: Request) -> None:
        self.requests.append(request)

    def closed(self, _link: ManagerLink) -> None:
        self.closings += 1

    def tell(self, line: str) -> None:
        self.told.append(line)


class Far:
    """A manager that says what the test tells it to, and notes what it hears."""

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
        self.far, self.duty = far, Duty()
        address = ManagerAddress(f"ws://127.0.0.1:{port}/", "secret")
        self.link = ManagerLink(address, self.duty, SystemClock(), chance=lambda: 0.0)
        self.task = asyncio.ensure_future(self.link.run(backoff=Backoff(first_s=0.01, most_s=0.05)))

    async def opened(self) -> None:
        await comes_true(lambda: self.duty.welcomes and self.far.sockets)

    def opened_times(self, times: int) -> bool:
        return len(self.far.sockets) == times == len(self.duty.welcomes)


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
        assert rig.duty.welcomes == [WELCOME]


async def test_a_request_is_answered_or_refused() -> None:
    async with linked() as rig:
        await rig.opened()
        await rig.far.says(ASK)
        await comes_true(lambda: rig.duty.requests == [ASK])
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
        rig.link.beat()
        await comes_true(lambda: len(rig.far.of(Heartbeat)) == 1)
        await rig.far.says(ReportNow())
        await comes_true(lambda: len(rig.far.of(Heartbeat)) == 2)


async def test_many_changes_share_a_heartbeat() -> None:
    async with linked() as rig:
        await rig.opened()
        for _ in range(1000):
            rig.link.beat()
        await comes_true(lambda: rig.far.of(Heartbeat))
        await rig.far.says(ASK)
        await comes_true(lambda: rig.duty.requests)

        assert rig.duty.beats <= 2


async def test_a_link_that_breaks_is_dialled_again() -> None:
    async with linked() as rig:
        for times in range(1, 4):
            await comes_true(partial(rig.opened_times, times))
            rig.far.sockets[-1].transport.abort()
        await comes_true(lambda: len(rig.duty.welcomes) == 4)

        assert rig.duty.closings == 3


async def test_a_manager_that_is_not_there_is_dialled_until_it_is() -> None:
    async with linked() as rig:
        await rig.opened()
        assert rig.far.server is not None
        rig.far.server.close()
        await comes_true(lambda: len(rig.duty.told) >= 3)

        assert "Connect call failed" in rig.duty.told[-1]


async def test_a_refusal_is_told_and_tried_again_later() -> None:
    def refusing(far: Far) -> None:
        far.first = HelloRefused(code="draining", message="come back later")

    async with linked(refusing) as rig:
        await comes_true(lambda: rig.duty.hellos >= 3)

        assert "come back later" in rig.duty.told[0]
        assert not rig.duty.welcomes
        assert rig.duty.closings == 0


@pytest.mark.parametrize("first", [b"\x01rubbish", bytes((PROTOCOL + 1,)) + b"?", Heartbeat(incarnation=1, sequence=1)])
async def test_a_manager_that_talks_nonsense_is_left_and_dialled_again(first: Frame | bytes) -> None:
    def prepared(far: Far) -> None:
        far.first = first

    async with linked(prepared) as rig:
        await comes_true(lambda: rig.duty.hellos >= 2)

        assert rig.duty.told
        assert not rig.duty.welcomes


async def test_a_frame_out_of_place_ends_the_link() -> None:
    async with linked() as rig:
        await rig.opened()
        await rig.far.says(HELLO)
        await comes_true(lambda: rig.duty.closings == 1)

        assert "out of place" in rig.duty.told[0]


async def test_what_is_not_answered_on_one_link_is_not_answered_on_the_next() -> None:
    async with linked() as rig:
        await rig.opened()
        await rig.far.says(ASK)
        await comes_true(lambda: rig.duty.requests)
        rig.far.sockets[-1].transport.abort()
        await comes_true(lambda: len(rig.far.sockets) == 2 and len(rig.duty.welcomes) == 2)
        rig.link.answer(1, Done())
        rig.link.beat()
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


@pytest.mark.parametrize("trusted", [True, False])
async def test_a_manager_with_tls_is_linked_to_only_if_its_certificate_is_trusted(
    certificate: tuple[Path, Path], trusted: bool
) -> None:
    made, key = certificate
    ours, theirs = ssl.create_default_context(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    theirs.load_cert_chain(made, key)
    if trusted:
        ours.load_verify_locations(made)
    far, duty = Far(), Duty()
    async with serve(far.serve, "127.0.0.1", 0, compression=None, close_timeout=0.1, ssl=theirs) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        address = ManagerAddress(f"wss://127.0.0.1:{port}", "secret", tls=ours)
        task = asyncio.ensure_future(ManagerLink(address, duty, SystemClock(), chance=lambda: 0.0).run())
        await comes_true(lambda: duty.welcomes or any("CERTIFICATE_VERIFY_FAILED" in line for line in duty.told))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    assert bool(duty.welcomes) is trusted
    assert far.headers == (["Bearer secret"] if trusted else [])


@pytest.mark.parametrize("url", ["http://localhost", "ws://", "manager:8000", "ws://10.0.0.1:80"])
def test_an_address_that_would_give_the_credential_away_is_refused(url: str) -> None:
    with pytest.raises(UnsafeAddress):
        ManagerAddress(url, "secret")


@pytest.mark.parametrize("url", ["ws://localhost:1", "ws://[::1]:1", "wss://manager.example.org"])
def test_an_address_on_this_machine_or_with_tls_is_taken(url: str) -> None:
    assert "secret" not in repr(ManagerAddress(url, "secret"))


def test_plaintext_is_a_decision_that_somebody_writes_down() -> None:
    assert ManagerAddress("ws://10.0.0.1:80", "secret", plaintext=True).plaintext


async def test_a_door_that_stays_shut_says_why() -> None:
    duty = Duty()

    def shut(socket: ServerConnection, _request: object) -> HttpResponse:
        return socket.respond(HTTPStatus.UNAUTHORIZED, "this credential opens nothing here\n")

    async def nobody_comes(_socket: ServerConnection) -> None:
        pass

    async with serve(nobody_comes, "127.0.0.1", 0, process_request=shut) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        link = ManagerLink(ManagerAddress(f"ws://127.0.0.1:{port}", "x"), duty, SystemClock(), chance=lambda: 0.0)
        dialling = asyncio.ensure_future(link.run())
        await comes_true(lambda: bool(duty.told))
        dialling.cancel()
    assert duty.told[0].endswith("refuses this agent: this credential opens nothing here")
    assert duty.hellos == 0
