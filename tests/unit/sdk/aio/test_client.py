"""The async client."""

from __future__ import annotations

from pathlib import Path

import msgspec

from sokovan.sdk.aio.client import AsyncClient
from sokovan.sdk.machine import machine_mark
from sokovan.sdk.sync.client import Client
from tests.unit.sdk.fake_server import FakeServer, ok, stream
from tests.unit.sdk.signatures import signatures
from tests.unit.sdk.views import SESSION


def test_the_names_are_those_of_the_sync_client() -> None:
    assert signatures(AsyncClient) == signatures(Client)


async def test_a_run_is_a_submission_and_gives_a_handle() -> None:
    me = {"user": "ada", "role": "user", "domain": "d", "groups": [], "access_key": "AK-1"}
    health = {"status": "ok", "version": "1", "parts": {}}
    server = FakeServer(ok(SESSION, status=201), ok(SESSION), ok(me), ok(health), stream(("resync", {})))
    async with AsyncClient("http://127.0.0.1", "sk-1", transport=server.async_transport()) as client:
        assert (await client.run(["python", "train.py"], gpus=8, workdir="none")).name == "ddp"
        assert (await client.session("ddp")).id == "s-1"
        assert (await client.whoami()).user == "ada"
        assert (await client.health()).status == "ok"
        events = client.events()
        assert (await anext(aiter(events))).trigger == "resync"
        assert client.endpoint.url == "http://127.0.0.1"
    assert server.lines[0] == "POST /api/v1/sessions"


def me(machine: str) -> dict[str, object]:
    return {
        "user": "ada",
        "role": "user",
        "domain": "d",
        "groups": [],
        "access_key": "AK-1",
        "machine": machine,
        "folders": ["/"],
    }


async def test_a_run_works_in_the_current_folder_where_the_server_sees_it() -> None:
    server = FakeServer(ok(me(machine_mark())), *[ok(SESSION, status=201)] * 3)
    async with AsyncClient("http://127.0.0.1", "sk-1", transport=server.async_transport()) as client:
        for options in ({}, {"workdir": "none"}, {"workdir": "sub"}):
            await client.run(["true"], **options)  # type: ignore[arg-type]  # options of a run
    bodies = [msgspec.json.decode(request.content) for request in server.requests[1:]]
    assert [body.get("workdir", "") for body in bodies] == [str(Path.cwd()), "", str(Path.cwd() / "sub")]


async def test_a_run_names_no_folder_to_a_server_elsewhere() -> None:
    server = FakeServer(ok(me("another")), ok(SESSION, status=201))
    async with AsyncClient("http://127.0.0.1", "sk-1", transport=server.async_transport()) as client:
        await client.run(["true"])
    assert "workdir" not in msgspec.json.decode(server.requests[1].content)
