"""Job arrays, for the sync client."""

from __future__ import annotations

from sokovan.sdk.sync.arrays import Arrays
from sokovan.sdk.sync.connection import Connection
from tests.unit.sdk.fake_server import ENDPOINT, FakeClock, FakeServer, ok
from tests.unit.sdk.views import ARRAY


def test_an_array_is_read_stopped_listed_and_waited_for() -> None:
    server = FakeServer(
        ok(ARRAY),
        ok(ARRAY),
        ok({"items": [ARRAY], "next": None}),
        ok(ARRAY),
        ok({"items": [], "next": None}),
        ok(ARRAY),
    )
    arrays = Arrays(Connection(ENDPOINT, transport=server.transport(), environment=FakeClock()))
    assert arrays.get("sweep") == arrays.stop("sweep") == next(iter(arrays.list())) == arrays.wait("sweep") == ARRAY
