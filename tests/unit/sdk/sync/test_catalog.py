"""Machines, owners and limits, for the sync client."""

from __future__ import annotations

from sokovan.sdk.core.catalog_calls import QUEUES
from sokovan.sdk.sync.catalog import Agents, Catalog, ImageCatalog, Keys
from sokovan.sdk.sync.connection import Connection
from sokovan.wire.api.fleet import ImageBody, QueueBody
from tests.unit.sdk.agent_views import AGENT
from tests.unit.sdk.fake_server import ENDPOINT, CannedResponse, FakeClock, FakeServer, ok

QUEUE = QueueBody(name="research", weight=3)


def connected(*responses: CannedResponse) -> tuple[Connection, FakeServer]:
    """A connection to a server that gives these responses."""
    server = FakeServer(*responses)
    return Connection(ENDPOINT, transport=server.transport(), environment=FakeClock()), server


def test_named_objects_are_listed_read_written_and_removed() -> None:
    pages = [ok({"items": [QUEUE], "next": "c"}), ok({"items": [QUEUE]})]
    connection, server = connected(*pages, ok(QUEUE), ok(QUEUE, status=201), ok(None, status=204))
    queues = Catalog(connection, QUEUES)
    assert list(queues.list()) == [QUEUE, QUEUE]
    assert queues.get("research") == QUEUE
    assert queues.put(QUEUE) == QUEUE
    queues.delete("research")
    assert [line.partition("?")[0] for line in server.lines] == [
        "GET /api/v1/queues",
        "GET /api/v1/queues",
        "GET /api/v1/queues/research",
        "PUT /api/v1/queues/research",
        "DELETE /api/v1/queues/research",
    ]


def test_images_are_there_for_one_architecture_each() -> None:
    image = ImageBody(name="a/b:1", architecture="arm64")
    connection, server = connected(ok({"items": [image]}), ok(image), ok(image), ok(None, status=204))
    images = ImageCatalog(connection)
    assert list(images.list()) == [image]
    images.get("a/b:1", architecture="arm64")
    images.put(image)
    images.delete("a/b:1", architecture="arm64")
    assert server.lines[1:] == [
        "GET /api/v1/images/a/b:1?architecture=arm64",
        "PUT /api/v1/images/a/b:1",
        "DELETE /api/v1/images/a/b:1?architecture=arm64",
    ]


def test_machines_are_drained_taken_back_and_written_off() -> None:
    connection, server = connected(ok({"items": [AGENT]}), *[ok(AGENT)] * 4, ok([]))
    agents = Agents(connection)
    assert list(agents.list()) == [AGENT]
    assert agents.get("gpu2") == AGENT
    agents.drain("gpu2", reason="dimm")
    agents.undrain("gpu2")
    agents.declare_gone("gpu2")
    assert agents.history("gpu2") == []
    assert [one.content for one in server.requests[2:5]] == [
        b'{"action":"drain","reason":"dimm"}',
        b'{"action":"undrain"}',
        b'{"action":"declare-gone"}',
    ]


def test_a_key_is_made_listed_and_made_useless() -> None:
    key = {"access_key": "AK-1", "user": "ada", "policy": None, "active": True}
    connection, server = connected(ok({**key, "token": "sk-1"}), ok({"items": [key]}), ok(None, status=204))
    keys = Keys(connection)
    assert keys.create("ada", policy="small").token.startswith("sk-")
    assert [one.access_key for one in keys.list()] == ["AK-1"]
    keys.delete("AK-1")
    assert server.requests[0].content == b'{"user":"ada","policy":"small"}'
    assert server.lines[2] == "DELETE /api/v1/keys/AK-1"
