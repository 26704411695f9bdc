"""Everything besides sessions, for the sync client."""

from __future__ import annotations

from sokovan.sdk.sync.catalogs import Catalogs
from sokovan.sdk.sync.connection import Connection
from tests.unit.sdk.fake_server import ENDPOINT, FakeServer, ok


def test_every_kind_has_its_own_path() -> None:
    kinds = ("scaling_groups", "queues", "domains", "groups", "users", "policies", "images", "agents", "keys")
    server = FakeServer(*[ok({"items": []})] * len(kinds))
    catalogs = Catalogs(Connection(ENDPOINT, transport=server.transport()))
    for kind in kinds:
        assert list(getattr(catalogs, kind).list()) == []
    paths = [line.removeprefix("GET /api/v1/").partition("?")[0] for line in server.lines]
    assert paths == [kind.replace("_", "-") for kind in kinds]


def test_a_catalog_is_made_once() -> None:
    catalogs = Catalogs(Connection(ENDPOINT, transport=FakeServer().transport()))
    assert catalogs.queues is catalogs.queues
