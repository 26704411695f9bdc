"""Machines, owners and limits, for the async client."""

from __future__ import annotations

from sokovan.sdk.aio.catalog import AsyncAgents, AsyncCatalog, AsyncImageCatalog, AsyncKeys
from sokovan.sdk.aio.connection import AsyncConnection
from sokovan.sdk.core.catalog_calls import QUEUES
from sokovan.sdk.sync.catalog import Agents, Catalog, ImageCatalog, Keys
from sokovan.wire.api.fleet import QueueBody
from tests.unit.sdk.agent_views import AGENT
from tests.unit.sdk.fake_server import ENDPOINT, FakeClock, FakeServer, ok
from tests.unit.sdk.signatures import signatures

QUEUE = QueueBody(name="research", weight=3)


def test_the_names_are_those_of_the_sync_client() -> None:
    pairs = [(AsyncCatalog, Catalog), (AsyncImageCatalog, ImageCatalog), (AsyncAgents, Agents), (AsyncKeys, Keys)]
    for later, now in pairs:
        assert signatures(later) == signatures(now)


async def test_objects_are_read_and_written() -> None:
    key = {"access_key": "AK-1", "user": "ada", "policy": None, "active": True}
    responses = [ok({"items": [QUEUE]}), ok(QUEUE), ok(None, status=204), ok(AGENT), ok({**key, "token": "sk-1"})]
    server = FakeServer(*responses)
    connection = AsyncConnection(ENDPOINT, transport=server.async_transport(), environment=FakeClock())
    queues = AsyncCatalog(connection, QUEUES)
    assert [queue async for queue in queues.list()] == [QUEUE]
    assert await queues.put(QUEUE) == QUEUE
    await queues.delete("research")
    assert await AsyncAgents(connection).drain("gpu2") == AGENT
    assert (await AsyncKeys(connection).create("ada")).token.startswith("sk-")
    assert len(server.requests) == 5
