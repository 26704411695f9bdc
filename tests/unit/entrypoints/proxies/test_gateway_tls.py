"""A gateway with TLS: requests, streams, and certificates that are replaced."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from sokovan.adapters.local.certificates import CertificateAuthority, dialling
from sokovan.adapters.local.clock import SystemClock
from sokovan.entrypoints.proxies import gateway_tls
from sokovan.entrypoints.proxies.gateway_tls import GatewayCertificate, GatewayCertificateUnusable, require_loopback
from sokovan.entrypoints.proxies.proxy_process import ProxyOptions, listening_socket, run_proxy, serve
from sokovan.proxy.http.heads import HEAD_BYTES_MAX
from tests.unit.proxy.running_proxy import (
    LIMIT_S,
    RunningProxy,
    SeenRequest,
    body_of,
    call,
    endpoint_of,
    engines,
    get,
    json_answer,
    proxy_with,
    route_of,
    status_of,
    stream_answer,
    table_of,
)

PEM_KEY = "-----BEGIN PRIVATE KEY-----"
LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]


class Files:
    """The files of a gateway's certificate, and the authority that made it."""

    def __init__(self, folder: Path) -> None:
        self.authority = CertificateAuthority(folder / "tls", SystemClock())
        self.folder = folder / "tls"
        self.make("gateway.pem")

    def make(self, name: str) -> Path:
        self.authority.serving(["127.0.0.1"], name)
        return self.folder / name

    def separate(self, name: str) -> tuple[Path, Path]:
        """Chain and key in files of their own."""
        chain, _, key = self.make(name).read_text(encoding="ascii").partition(PEM_KEY)
        paths = self.folder / f"{name}.chain", self.folder / f"{name}.key"
        paths[0].write_text(chain, encoding="ascii")
        paths[1].write_text(PEM_KEY + key, encoding="ascii")
        return paths


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@contextlib.asynccontextmanager
async def encrypted(
    proxy: RunningProxy, files: Files
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection of a client that checks the certificate."""
    trust = dialling(files.authority.certificate)
    async with asyncio.timeout(LIMIT_S):
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", proxy.port, ssl=trust, server_hostname="127.0.0.1", limit=1 << 20
        )
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def asked(proxy: RunningProxy, files: Files, raw: bytes) -> bytes:
    """Everything that the gateway answers to these bytes until it closes."""
    async with encrypted(proxy, files) as (reader, writer), asyncio.timeout(LIMIT_S):
        writer.write(raw)
        return await reader.read()


def on(loop: Callable[[], asyncio.AbstractEventLoop], scenario: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(scenario)


@pytest.mark.parametrize("loop", LOOPS)
def test_requests_and_streams_are_served_with_tls(loop: Any, files: Files) -> None:
    events = [b'data: {"choices":[]}\n\n'] * 20 + [b"data: [DONE]\n\n"]
    large = json_answer(b'"' + b"x" * 300_000 + b'"')

    async def scenario() -> None:
        tls = GatewayCertificate(files.folder / "gateway.pem", None).context
        async with (
            engines(stream_answer(events)) as (engine,),
            proxy_with(table_of(route_of(endpoint_of(engine))), tls) as proxy,
        ):
            streamed = await asked(proxy, files, call())
            assert status_of(streamed) == 200
            assert body_of(streamed) == b"".join(events)
            engine.answer = large
            whole = await asked(proxy, files, call(body=b'{"model":"chat","x":"' + b"y" * 300_000 + b'"}'))
            assert len(body_of(whole)) == 300_002
            assert len(engine.requests[-1].body) > 300_000

    on(loop, scenario())


@pytest.mark.parametrize("loop", LOOPS)
def test_a_refusal_within_a_request_is_read_by_a_client_that_still_sends(loop: Any, files: Files) -> None:
    async def scenario() -> None:
        tls = GatewayCertificate(files.folder / "gateway.pem", None).context
        async with proxy_with(table_of(), tls) as proxy, encrypted(proxy, files) as (reader, writer):
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * HEAD_BYTES_MAX + b"\r\n\r\n")
            async with asyncio.timeout(LIMIT_S):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(b"and more" * 10_000)
                assert status_of(head) == 431
                await reader.read()

    on(loop, scenario())


@pytest.mark.parametrize("loop", LOOPS)
def test_a_client_that_ends_its_tls_connection_has_left(
    loop: Any, files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    begun = asyncio.Event()

    async def late(_request: SeenRequest, _writer: asyncio.StreamWriter) -> None:
        begun.set()
        await asyncio.Event().wait()

    async def scenario() -> None:
        tls = GatewayCertificate(files.folder / "gateway.pem", None).context
        async with engines(late) as (engine,), proxy_with(table_of(route_of(endpoint_of(engine))), tls) as proxy:
            raw = await asyncio.to_thread(_half_closing, proxy.port, call())
            async with asyncio.timeout(LIMIT_S):
                await begun.wait()
                raw.shutdown(socket.SHUT_WR)
                await proxy.until(lambda: not proxy.context.clients and not proxy.context.exchanges)
            raw.close()

    on(loop, scenario())
    assert not caplog.records


def _half_closing(port: int, request: bytes) -> socket.socket:
    """A socket on which a request was sent with TLS."""
    plain = socket.create_connection(("127.0.0.1", port))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing)
    while True:
        try:
            tls.do_handshake()
            break
        except ssl.SSLWantReadError:
            plain.sendall(outgoing.read())
            incoming.write(plain.recv(65_536))
    tls.write(request)
    plain.sendall(outgoing.read())
    return plain


async def test_plain_requests_and_old_protocols_are_not_served(files: Files) -> None:
    tls = GatewayCertificate(files.folder / "gateway.pem", None).context
    async with proxy_with(table_of(), tls) as proxy:
        with contextlib.suppress(ConnectionError):
            assert b"HTTP" not in await proxy.send(get("/-/health"))
    assert tls.minimum_version is ssl.TLSVersion.TLSv1_2


async def test_a_replaced_certificate_is_used_for_new_connections(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_tls, "LOOK_S", 0.01)
    lines: list[str] = []
    certificate = GatewayCertificate(files.folder / "gateway.pem", None)
    following = asyncio.create_task(certificate.follow(SystemClock(), lines.append))
    async with proxy_with(table_of(), certificate.context) as proxy:
        async with encrypted(proxy, files) as (reader, writer):
            before = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
            files.make("gateway.pem")
            await proxy.until(lambda: bool(lines))
            async with encrypted(proxy, files) as (_, second):
                assert second.get_extra_info("ssl_object").getpeercert(binary_form=True) != before
            writer.write(get("/-/health"))
            async with asyncio.timeout(LIMIT_S):
                assert status_of(await reader.read()) == 200, "open connections continue"
        (files.folder / "gateway.pem").write_text("half a file", encoding="ascii")
        await proxy.until(lambda: len(lines) > 1)
        assert status_of(await asked(proxy, files, get("/-/health"))) == 200
    following.cancel()
    assert lines[0] == "the gateway has a new certificate"
    assert lines[1].startswith("the gateway keeps its certificate: cannot use")


def test_files_that_do_not_belong_together_leave_the_certificate_in_force(files: Files) -> None:
    chain, key = files.separate("first")
    certificate = GatewayCertificate(chain, key)
    other, _ = files.separate("other")
    chain.write_bytes(other.read_bytes())
    with pytest.raises(GatewayCertificateUnusable, match="cannot use"):
        certificate.renew()
    assert not certificate.renew(), "it is tried once"


@pytest.mark.parametrize("content", ["", "no certificate"])
def test_a_certificate_that_cannot_be_used_stops_the_start(tmp_path: Path, content: str) -> None:
    path = tmp_path / "gateway.pem"
    if content:
        path.write_text(content, encoding="ascii")
    options = ProxyOptions(managers=(), token="", root=tmp_path, certificate=path)
    with pytest.raises(GatewayCertificateUnusable, match="cannot use"):
        run_proxy(options, lambda _line: None)


def test_only_sockets_of_this_machine_need_no_certificate() -> None:
    for host in ("127.0.0.1", "127.0.0.9", "::1"):
        with listening_socket(host, 0) as listener:
            require_loopback(listener)


async def test_the_process_says_that_its_gateway_has_tls(tmp_path: Path, files: Files) -> None:
    lines: list[str] = []
    ready = asyncio.Event()

    def log(line: str) -> None:
        lines.append(line)
        ready.set()

    listener = listening_socket("127.0.0.1", 0)
    port = listener.getsockname()[1]
    options = ProxyOptions(managers=(), token="", root=tmp_path / "proxy", certificate=files.folder / "gateway.pem")
    serving = asyncio.create_task(serve(options, listener, log))
    async with asyncio.timeout(LIMIT_S):
        await ready.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        await serving
    assert lines == [f"the gateway is ready at https://127.0.0.1:{port}"]
    listener.close()
