"""Everything besides sessions, for the async client."""

from __future__ import annotations

from sokovan.sdk.aio.catalogs import AsyncCatalogs
from sokovan.sdk.aio.connection import AsyncConnection
from sokovan.sdk.sync.catalogs import Catalogs
from tests.unit.sdk.fake_server import ENDPOINT, FakeServer, ok
from tests.unit.sdk.signatures import signatures


async def test_every_kind_is_there_under_the_name_of_the_sync_client() -> None:
    assert signatures(AsyncCatalogs) == signatures(Catalogs)
    # The topology is one document, not a list.
    kinds = sorted(set(signatures(Catalogs)) - {"topology"})
    server = FakeServer(*[ok({"items": []})] * len(kinds))
    catalogs = AsyncCatalogs(AsyncConnection(ENDPOINT, transport=server.async_transport()))
    for kind in kinds:
        assert [one async for one in getattr(catalogs, kind).list()] == []
    assert len(server.requests) == 11
