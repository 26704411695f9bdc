"""Requests with keys outside the table wait for the manager's answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from sokovan.proxy.accounts.key_verdicts import KeyVerdicts
from sokovan.proxy.control import key_lookups
from sokovan.proxy.control.key_lookups import KeyLookups
from sokovan.proxy.control.manager_calls import ManagerAway
from sokovan.wire.serving.route_table import KeyEntry
from tests.unit.proxy.running_proxy import (
    RunningProxy,
    call,
    code_of,
    endpoint_of,
    engines,
    get,
    json_answer,
    key_of,
    proxy_with,
    route_of,
    status_of,
    table_of,
)

SECRET = b"sk-abc." + b"x" * 43
ENTRY = key_of(SECRET, key_id="key:abc", kind="user", owner="admin", deployments=())


def link(proxy: RunningProxy, fetch: Callable[[bytes], Awaitable[KeyEntry | None]]) -> None:
    proxy.context.verdicts = KeyVerdicts(has_manager=True)
    proxy.context.ask_key = KeyLookups(proxy.context, fetch).ask


async def test_requests_with_the_same_key_wait_for_one_answer() -> None:
    asked, release = list[bytes](), asyncio.Event()

    async def fetch(secret: bytes) -> KeyEntry | None:
        asked.append(secret)
        await release.wait()
        return ENTRY

    async with engines(json_answer()) as (engine,), proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy:
        link(proxy, fetch)
        requests = (call(key=SECRET), call("/d/chat/x", key=SECRET), get("/v1/models", key=SECRET))
        waiting = [asyncio.create_task(proxy.send(request)) for request in requests]
        await proxy.until(lambda: len(proxy.context.exchanges) == 3)
        assert not engine.requests
        release.set()

        assert [status_of(answer) for answer in await asyncio.gather(*waiting)] == [200, 200, 200]
        assert asked == [SECRET]
        proxy.context.ledger.close()
        assert {entry.key_id for entry in proxy.context.ledger.unsent()} == {"key:abc"}


async def test_a_key_of_a_user_opens_what_the_user_may_use_and_nothing_else() -> None:
    async def fetch(_secret: bytes) -> KeyEntry | None:
        return key_of(SECRET, key_id="key:abc", kind="user", owner="ada", projects=("lab",), deployments=())

    routes = (
        route_of(),
        route_of(deployment_id="deployment-2", name="shared", models=(), project="lab", access="project"),
        route_of(deployment_id="deployment-3", name="mine", models=(), owner="ada"),
        route_of(deployment_id="deployment-4", name="private", models=(), project="lab"),
    )
    async with proxy_with(table_of(*routes)) as proxy:
        link(proxy, fetch)
        codes = {name: code_of(await proxy.send(call(f"/d/{name}/x", key=SECRET))) for name in ("shared", "mine")}
        assert codes == {"shared": "no-endpoint", "mine": "no-endpoint"}
        for name in ("chat", "private"):
            assert code_of(await proxy.send(call(f"/d/{name}/x", key=SECRET))) == "unknown-deployment"


@pytest.mark.parametrize("problem", [ManagerAway("gone"), None])
async def test_a_key_that_nobody_confirms_is_refused(problem: Exception | None) -> None:
    async def fetch(_secret: bytes) -> KeyEntry | None:
        if problem is not None:
            raise problem
        return None

    async with proxy_with(table_of(route_of())) as proxy:
        link(proxy, fetch)
        answer = await proxy.send(call(key=SECRET))

        expected = (401, "invalid-key") if problem is None else (503, "key-unchecked")
        assert (status_of(answer), code_of(answer)) == expected


async def test_a_manager_that_does_not_answer_counts_as_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_lookups, "ANSWER_S", 0.05)

    async def fetch(_secret: bytes) -> KeyEntry | None:
        await asyncio.Event().wait()
        return None

    async with proxy_with(table_of(route_of())) as proxy:
        link(proxy, fetch)
        assert code_of(await proxy.send(call(key=SECRET))) == "key-unchecked"


async def test_a_body_that_comes_while_its_key_is_checked_is_not_lost() -> None:
    release = asyncio.Event()

    async def fetch(_secret: bytes) -> KeyEntry | None:
        await release.wait()
        return ENTRY

    async with engines(json_answer()) as (engine,), proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy:
        link(proxy, fetch)
        reader, writer = await proxy.connect()
        body = b'{"model":"chat","messages":[]}'
        head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer %b\r\ncontent-length: %d\r\n"
        writer.write(head % (SECRET, len(body)) + b"connection: close\r\n\r\n" + body[:10])
        await proxy.until(lambda: len(proxy.context.exchanges) == 1)
        writer.write(body[10:])
        release.set()

        assert status_of(await reader.read()) == 200
        assert engine.requests[0].body == body
        writer.transport.abort()


async def test_a_client_that_leaves_while_its_key_is_checked_leaves_nothing() -> None:
    release = asyncio.Event()

    async def fetch(_secret: bytes) -> KeyEntry | None:
        await release.wait()
        return ENTRY

    async with engines(json_answer()) as (engine,), proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy:
        link(proxy, fetch)
        waiting = asyncio.create_task(proxy.send(call(key=SECRET)))
        await proxy.until(lambda: len(proxy.context.exchanges) == 1)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        release.set()
        await proxy.until(lambda: not proxy.context.exchanges)

        assert not engine.requests
        assert proxy.context.held_bytes == 0


async def test_a_new_token_waits_for_the_table_that_has_its_new_deployment() -> None:
    token, asked = b"ske_" + b"t" * 43, asyncio.Event()

    async def fetch(secret: bytes) -> KeyEntry | None:
        asked.set()
        return key_of(secret, key_id="token-new", deployments=("deployment-9",))

    async with engines(json_answer()) as (engine,), proxy_with(table_of()) as proxy:
        link(proxy, fetch)
        request = call(body=b'{"model":"late"}', key=token)
        waiting = asyncio.create_task(proxy.send(request))
        await asked.wait()
        late = route_of(endpoint_of(engine), deployment_id="deployment-9", name="late", models=("late",))
        proxy.server.apply(table_of(late, version=2))

        assert status_of(await waiting) == 200


async def test_a_token_whose_deployment_is_in_no_table_is_waited_for_only_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(key_lookups, "ROUTES_S", 0.01)
    token = b"ske_" + b"t" * 43

    async def fetch(secret: bytes) -> KeyEntry | None:
        return key_of(secret, key_id="token-new", deployments=("deployment-9",))

    async with proxy_with(table_of()) as proxy:
        link(proxy, fetch)

        assert code_of(await proxy.send(call(body=b'{"model":"late"}', key=token))) == "model_not_found"
