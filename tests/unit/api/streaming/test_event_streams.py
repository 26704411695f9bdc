"""Server-sent events: alive signs, revoked keys, ends and errors."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from sokovan.api.access.authentication import AuthenticatedPrincipal, token_digest
from sokovan.api.app import close_streams
from sokovan.api.streaming.event_hub import EventHub, EventListener
from sokovan.api.streaming.event_streams import UNTIL_WOKEN, Source, Streams, sse
from sokovan.domain.errors import Conflict
from sokovan.domain.owners.tenancy import Role, User
from tests.unit.api.api_harness import ADMIN, PEPPER, ApiHarness, add_key, api_harness, member, quick

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api() -> AsyncIterator[ApiHarness]:
    """An API whose streams are alive often, and few."""
    async with api_harness(streams=quick(idle_s=0.05, streams_per_user_max=2)) as made:
        yield made


def hub_of(api: ApiHarness) -> EventHub:
    hub: EventHub = api.app.state.context.streams.hub
    return hub


async def principal_of(api: ApiHarness, user: str) -> AuthenticatedPrincipal:
    digest = token_digest(api.tokens[user], PEPPER)
    principal = await api.cluster.store.read(lambda unit: unit.credentials.find(digest))
    assert principal is not None
    return AuthenticatedPrincipal(principal, digest, "req-1")


async def said(api: ApiHarness, source: Any) -> list[str]:
    """Everything that a source says, alive signs left out."""
    streams: Streams = api.app.state.context.streams
    response = streams.response(await principal_of(api, ADMIN), source)
    parts = [part async for part in response.body_iterator]
    return [part.decode() for part in parts if isinstance(part, bytes) and not part.startswith(b":")]


async def test_an_event_has_a_name_a_number_and_one_line_of_data() -> None:
    assert sse("log", {"a": "x\ny"}, event_id="0:5") == b'event: log\nid: 0:5\ndata: {"a":"x\\ny"}\n\n'
    assert sse("log", {}) == b"event: log\ndata: {}\n\n"


@pytest.mark.slow
async def test_a_silent_stream_says_that_it_is_alive(api: ApiHarness) -> None:
    async with api.stream("/events") as stream:
        assert (await stream.block() or "").startswith(": connected\n")
        assert await stream.block() == ": alive"
        assert (stream.status, stream.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        assert stream.headers["cache-control"] == "no-store"


@pytest.mark.slow
async def test_who_hangs_up_leaves_nothing_behind(api: ApiHarness) -> None:
    async with api.stream("/events") as stream:
        await stream.block()
        assert hub_of(api)._holders
    assert not hub_of(api)._holders


async def test_a_revoked_key_ends_its_streams_and_no_others(api: ApiHarness) -> None:
    key = await add_key(api, member("north"), named="short-lived")
    async with api.stream("/events", user="short-lived") as revoked, api.stream("/events") as other:
        await revoked.block()
        await api.call("DELETE", f"/keys/{key}")
        name, problem = (await revoked.rest())[-1]
        assert (name, problem["status"], problem["code"]) == ("problem", 401, "unauthenticated")
        assert await other.block() is not None


async def test_streams_end_when_their_user_is_changed(api: ApiHarness) -> None:
    await api.cluster.put(User("climber", "north", role=Role.ADMIN))
    await add_key(api, "climber")
    async with api.stream("/events", user="climber") as stream:
        await stream.block()
        await api.cluster.put(User("climber", "north"))
        assert (await stream.rest())[-1][1]["code"] == "unauthenticated"


async def test_one_user_has_so_many_streams_and_no_more_with_another_key(api: ApiHarness) -> None:
    await add_key(api, ADMIN, named="second")
    async with api.stream("/events") as one, api.stream("/events", user="second") as two:
        await one.block()
        await two.block()
        answer = await api.get("/events")
        assert (answer.status_code, answer.json()["code"]) == (429, "too-many-streams")
        async with api.stream("/events", user=member("south")) as other:
            assert (await other.block() or "").startswith(": connected\n")


async def test_an_error_is_the_last_event(api: ApiHarness) -> None:
    async def source(_ear: EventListener) -> Source:
        yield b"event: a\ndata: 1\n\n"
        raise Conflict("no more")

    first, last = await said(api, source)
    assert first == "event: a\ndata: 1\n\n"
    problem = json.loads(last.partition("data: ")[2])
    assert (problem["code"], problem["request_id"]) == ("conflict", "req-1")


async def test_an_unexpected_error_is_reported_without_details(api: ApiHarness) -> None:
    async def source(_ear: EventListener) -> Source:
        yield b"event: a\ndata: 1\n\n"
        raise ZeroDivisionError("secret")

    last = (await said(api, source))[-1]
    assert "internal" in last
    assert "secret" not in last


async def test_a_source_that_waits_is_woken_by_time_alone(api: ApiHarness) -> None:
    async def source(_ear: EventListener) -> Source:
        yield 0.001
        yield UNTIL_WOKEN
        yield b"event: a\ndata: 1\n\n"

    assert await said(api, source) == ["event: a\ndata: 1\n\n"]


@pytest.mark.slow
async def test_a_stream_does_not_last_for_ever() -> None:
    async with api_harness(streams=quick(lasts_s_max=0.05)) as api, api.stream("/events") as stream:
        assert await stream.rest() == []


@pytest.mark.slow
async def test_a_server_that_stops_ends_its_streams() -> None:
    async with api_harness() as api, api.stream("/events") as stream:
        await stream.block()
        close_streams(api.app)
        assert await stream.rest() == []
