"""Machines, owners and limits, for the async client."""

from __future__ import annotations

from sokovan.sdk.aio.catalog import (
    AsyncAgents,
    AsyncBookings,
    AsyncCatalog,
    AsyncHyperNodes,
    AsyncImageCatalog,
    AsyncKeys,
)
from sokovan.sdk.aio.connection import AsyncConnection
from sokovan.sdk.core.catalog_calls import QUEUES
from sokovan.sdk.sync.catalog import Agents, Bookings, Catalog, HyperNodes, ImageCatalog, Keys
from sokovan.wire.api.fleet import BookingBody, QueueBody
from sokovan.wire.api.topology import TierBody, TopologyBody
from tests.unit.sdk.agent_views import AGENT
from tests.unit.sdk.fake_server import ENDPOINT, FakeClock, FakeServer, ok
from tests.unit.sdk.signatures import signatures

QUEUE = QueueBody(name="research", weight=3)


def test_the_names_are_those_of_the_sync_client() -> None:
    pairs = [
        (AsyncCatalog, Catalog),
        (AsyncBookings, Bookings),
        (AsyncImageCatalog, ImageCatalog),
        (AsyncAgents, Agents),
        (AsyncKeys, Keys),
        (AsyncHyperNodes, HyperNodes),
    ]
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


async def test_a_booking_is_created_once_or_replaced() -> None:
    booking = BookingBody(name="demo", starts_at="2030-01-31T18:00:00Z", ends_at="2030-01-31T20:00:00Z")
    server = FakeServer(ok(booking), ok(booking))
    bookings = AsyncBookings(AsyncConnection(ENDPOINT, transport=server.async_transport(), environment=FakeClock()))
    assert await bookings.create(booking) == await bookings.put(booking) == booking
    assert [request.url.query for request in server.requests] == [b"replace=false", b""]


async def test_the_topology_is_read_replaced_and_removed() -> None:
    change = {"applied": True, "hypernodes": 0, "agents": 1, "unplaced": 1, "violation_count": 0, "violations": []}
    body = TopologyBody(tiers=[TierBody(name="rack", label="rack")])
    view = {"tiers": body.tiers, "hypernodes": [], "tree": []}
    server = FakeServer(ok(view), ok(change), ok(change), ok({"agent": AGENT, "topology": change}))
    connection = AsyncConnection(ENDPOINT, transport=server.async_transport(), environment=FakeClock())
    topology = AsyncHyperNodes(connection)
    assert (await topology.get()).tiers == body.tiers
    assert (await topology.apply(body, dry_run=True)).unplaced == 1
    assert (await topology.delete()).applied
    assert (await AsyncAgents(connection).label("gpu2", {"rack": "r1"}, remove=["zone"])).agent == AGENT
    assert [request.url.query for request in server.requests] == [b"", b"dry_run=true", b"", b""]
