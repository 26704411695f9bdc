"""A smoke request shows that an engine answers requests, not only probes."""

from __future__ import annotations

import asyncio
import json

import pytest

from sokovan.proxy.control.probes import probe
from sokovan.proxy.control.smoke_requests import RESPONSE_MAX, problem_of, smoke
from sokovan.wire.serving.route_table import ProbeTerms
from tests.unit.proxy.running_proxy import SeenRequest, endpoint_of, engines

TERMS = ProbeTerms(path="/health", smoke_path="/v1/chat/completions")


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n{}", ""),
        (b"HTTP/1.1 200 OK\r\n\r\n", "a request for one token got an empty answer"),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", ""),
        (b"HTTP/1.1 501 Not Implemented\r\n\r\n", ""),
        (b"HTTP/1.1 401 Unauthorized\r\n\r\n", "a request for one token got status 401"),
        (b"HTTP/1.1 503 Loading\r\n\r\n{}", "a request for one token got status 503"),
        (b"", "a request for one token got no HTTP response"),
        (b"SSH-2.0-x\r\n", "a request for one token got no HTTP response"),
    ],
)
def test_an_answer_passes_if_the_engine_serves_or_offers_no_chat(answer: bytes, problem: str) -> None:
    assert problem_of(answer) == problem


async def test_it_asks_for_one_token_with_the_key_of_the_replica_and_the_name_of_the_engine() -> None:
    async def answer(_request: SeenRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (2 * RESPONSE_MAX))
        await writer.drain()

    async with engines(answer) as (engine,):
        assert await smoke(endpoint_of(engine, probe=TERMS, upstream_model="own-name")) == ""
        [seen] = engine.requests
    assert seen.line == b"POST /v1/chat/completions HTTP/1.1"
    assert seen.field(b"authorization") == b"Bearer replica-key"
    body = json.loads(seen.body)
    assert (body["model"], body["max_tokens"]) == ("own-name", 1)


async def test_an_engine_that_hangs_or_is_gone_is_a_problem_and_no_error() -> None:
    async def hang(_request: SeenRequest, _writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with engines(hang) as (engine,):
        entry = endpoint_of(engine, probe=TERMS)
        assert "not answered within" in await smoke(entry, 0.05)
    assert "failed" in await smoke(entry)


async def test_nothing_is_sent_to_another_program_at_its_port() -> None:
    async with engines(hang_up) as (engine,):
        entry = endpoint_of(engine, probe=TERMS)
        assert await smoke(entry, owned=lambda: False) == "another program listens at its port"
        assert await probe(entry, lambda: False) == "another program listens at its port"
        assert not engine.requests
        assert not engine.probes


async def hang_up(_request: SeenRequest, writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
