"""Valkey from a wheel forgets or keeps its data, as asked."""

import pytest
from valkey import Valkey

from sokovan.testing.servers import ValkeyServer

pytestmark = pytest.mark.server


def test_a_server_without_a_file_forgets_with_its_process() -> None:
    with ValkeyServer() as server, Valkey.from_url(server.url) as client:
        client.set("name", "value")
        server.kill()
        server.start()
        assert client.get("name") is None


def test_a_server_that_appends_keeps_its_data_through_a_kill() -> None:
    with ValkeyServer(append_only=True) as server, Valkey.from_url(server.url) as client:
        client.set("name", "value")
        server.kill()
        server.start()
        assert client.get("name") == b"value"


def test_each_database_has_keys_of_its_own(valkey_server: ValkeyServer) -> None:
    # Numbers that no worker of a parallel run has.
    with (
        Valkey.from_url(valkey_server.database_url(60)) as one,
        Valkey.from_url(valkey_server.database_url(61)) as other,
    ):
        one.set("name", "value")
        assert other.get("name") is None
        one.flushdb()


def test_a_test_begins_with_an_empty_database(valkey_url: str) -> None:
    with Valkey.from_url(valkey_url) as client:
        assert client.dbsize() == 0
        client.set("left", "behind")


def test_a_wiped_server_is_empty() -> None:
    with ValkeyServer() as server, Valkey.from_url(server.url) as client:
        client.set("name", "value")
        server.wipe()
        assert client.dbsize() == 0
