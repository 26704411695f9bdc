"""Being let in to etcd: by name and password, and over TLS."""

from __future__ import annotations

import asyncio
import http.client
import ssl
from collections.abc import AsyncIterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import grpc  # type: ignore[import-untyped]  # it comes with the client library, without annotations
import pytest
from etcd3aio.auth import AuthService

from sokovan.adapters.etcd.access import EtcdAccess
from sokovan.adapters.etcd.config import EtcdConfig
from sokovan.adapters.local.clock import SystemClock
from sokovan.ports.config import ConfigTree, ConfigUnavailable
from sokovan.testing.servers import EtcdServer

PASSED = "open-sesame"


class TlsEtcdServer(EtcdServer):
    """An etcd that makes a certificate for itself."""

    @property
    def url(self) -> str:
        return super().url.replace("http://", "https://")

    def _arguments(self) -> Sequence[str]:
        return [*super()._arguments(), "--auto-tls=true"]

    def answers(self) -> bool:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection(urlsplit(self.url).netloc, timeout=5, context=context)
        try:
            connection.request("GET", "/health")
            return b"true" in connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def certificate(self) -> bytes:
        return (self.folder / "etcd" / "fixtures" / "client" / "cert.pem").read_bytes()


@pytest.fixture
async def guarded() -> AsyncIterator[EtcdServer]:
    """A server that admits no client without a password."""
    server = EtcdServer()
    await asyncio.to_thread(server.start)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        auth = AuthService(channel)
        for step in (auth.user_add("root", PASSED), auth.role_add("root"), auth.user_grant_role("root", "root")):
            await step
        await auth.auth_enable()
    yield server
    await asyncio.to_thread(server.close)


@pytest.fixture
async def secure() -> AsyncIterator[TlsEtcdServer]:
    server = TlsEtcdServer()
    await asyncio.to_thread(server.start)
    yield server
    await asyncio.to_thread(server.close)


def store_on(server: EtcdServer, **access: Any) -> EtcdConfig:
    return EtcdConfig(EtcdAccess((server.url,), **access), clock=SystemClock())


async def test_who_has_the_password_is_let_in_and_again_after_the_server_forgot_him(guarded: EtcdServer) -> None:
    store = store_on(guarded, username="root", password=PASSED)
    tree = await store.write({"a": 1}, expected=(await store.read()).revision)
    watch = store.watch()
    waiting = asyncio.ensure_future(anext(watch))
    await asyncio.to_thread(guarded.kill)
    await asyncio.to_thread(guarded.start)
    tree = await store.write({"a": 2}, expected=tree.revision)
    async with asyncio.timeout(180):
        received = await waiting
    assert isinstance(received, ConfigTree)
    assert received == tree
    await store.close()


@pytest.mark.parametrize("access", [{}, {"username": "root", "password": "wrong"}, {"username": "nobody"}])
async def test_a_client_without_access_gets_an_error(guarded: EtcdServer, access: dict[str, str]) -> None:
    store = store_on(guarded, **access)
    with pytest.raises(ConfigUnavailable, match=r"user name is empty|authentication failed|permission"):
        await store.read()
    await store.close()


async def test_over_tls_with_the_certificate_of_the_server(secure: TlsEtcdServer) -> None:
    store = store_on(secure, ca_certificate=secure.certificate())
    tree = await store.write({"a": 1}, expected=(await store.read()).revision)
    assert tree.values == {"a": 1}
    waiting = asyncio.ensure_future(anext(store.watch()))
    tree = await store.write({"a": 2}, expected=tree.revision)
    async with asyncio.timeout(180):
        assert await waiting == tree
    await store.close()


async def test_a_server_with_another_certificate_is_not_spoken_to(secure: TlsEtcdServer) -> None:
    stranger = TlsEtcdServer()
    await asyncio.to_thread(stranger.start)
    try:
        store = store_on(secure, ca_certificate=stranger.certificate(), deadline_s=3)
        with pytest.raises(ConfigUnavailable):
            await store.read()
        await store.close()
    finally:
        await asyncio.to_thread(stranger.close)
