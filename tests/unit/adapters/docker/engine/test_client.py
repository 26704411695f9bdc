"""Requests to a container engine: answers of every form, refusals and silence."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest

from sokovan.adapters.docker.engine.client import EngineClient, EngineRefusal, EngineUnavailable, path_of
from tests.unit.adapters.docker.canned_engine import VERSION, canned_engine

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


async def test_an_answer_is_read_at_the_version_that_both_know() -> None:
    async with canned_engine({"GET /info": (200, {"NCPU": 2})}) as engine:
        assert await engine.client.call("GET", "/info", query={"a": "b c"}) == {"NCPU": 2}
        assert engine.asked == ["GET /version", "GET /info?a=b+c"]


async def test_an_engine_that_requires_a_newer_version_gets_it() -> None:
    newer = {"ApiVersion": "1.52", "MinAPIVersion": "1.44"}
    async with canned_engine({"GET /version": (200, {**VERSION, **newer})}) as engine:
        with pytest.raises(EngineRefusal):
            await engine.client.call("GET", "/info")
        assert engine.asked[-1] == "GET /v1.44/info"


async def test_a_refusal_has_the_status_and_the_message_of_the_engine() -> None:
    async with canned_engine({"POST /containers/create": (409, {"message": "the name is in use"})}) as engine:
        with pytest.raises(EngineRefusal, match="the name is in use") as caught:
            await engine.client.call("POST", "/containers/create", body={"Image": "a"})
        assert caught.value.status == 409
        assert engine.bodies["POST /containers/create"] == {"Image": "a"}


async def test_a_missing_socket_is_named_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(EngineUnavailable, match=r"no container engine answers at .*nobody") as caught:
        await EngineClient(tmp_path / "nobody").call("GET", "/info")
    assert "--engine" in caught.value.hint


@pytest.mark.parametrize(
    ("said", "content"),
    [
        (CHUNKED + b"4\r\nab\nc\r\n2;x=y\r\ne\n\r\n0\r\n\r\n", b"ab\nce\n"),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", b"until the end"),
    ],
)
async def test_a_stream_is_passed_on_piece_by_piece(said: bytes, content: bytes) -> None:
    async with _saying(said) as client, client.stream("GET", "/events", query={}) as pieces:
        assert b"".join([piece async for piece in pieces]) == content


@pytest.mark.parametrize("said", [b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab", b""])
async def test_an_answer_that_breaks_off_is_no_answer(said: bytes) -> None:
    async with _saying(said) as client:
        with pytest.raises(EngineUnavailable, match="breaks off"):
            await client.call("GET", "/info")


async def test_a_connection_is_taken_over_in_both_directions() -> None:
    async with _saying(b"HTTP/1.1 101 UPGRADED\r\n\r\nready", echo=True) as client:
        reader, writer = await client.taken_over("/exec/1/start", {})
        assert await reader.readexactly(5) == b"ready"
        writer.write(b"more")
        writer.write_eof()
        assert await reader.read() == b"more"
        writer.close()


def test_parts_of_a_path_are_quoted() -> None:
    assert path_of("containers", "a/b?c", "json") == "/containers/a%2Fb%3Fc/json"


class _saying:  # noqa: N801  # reads as a sentence
    """A socket that says the same to every request but the first, which asks for the version."""

    def __init__(self, said: bytes, *, echo: bool = False) -> None:
        self._said, self._echo = said, echo

    async def __aenter__(self) -> EngineClient:
        self._folder = tempfile.TemporaryDirectory(prefix="engine-")
        socket = Path(self._folder.name) / "s"
        self._server = await asyncio.start_unix_server(self._answer, str(socket))
        return EngineClient(socket)

    async def __aexit__(self, *_details: object) -> None:
        self._server.close()
        self._folder.cleanup()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        await reader.readexactly(size)
        version = b'{"ApiVersion": "1.41"}'
        first = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(version), version)
        writer.write(first if head.startswith(b"GET /version") else self._said)
        if self._echo and not head.startswith(b"GET /version"):
            writer.write(await reader.read())
        writer.close()
