"""Etcd from a wheel keeps its keys through a kill."""

import base64
import json
import urllib.request

import pytest

from sokovan.testing.servers import EtcdServer

pytestmark = pytest.mark.server


def test_keys_survive_a_kill_and_not_a_wipe() -> None:
    with EtcdServer() as server:
        call(server.url, "put", {"key": coded("name"), "value": coded("value")})
        server.kill()
        assert not server.answers()
        server.restart()
        assert stored(server.url, "name") == ["value"]
        server.wipe()
        assert stored(server.url, "name") == []


def test_a_test_begins_with_no_keys(etcd_url: str) -> None:
    assert stored(etcd_url, "left") == []
    call(etcd_url, "put", {"key": coded("left"), "value": coded("behind")})


def coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def call(url: str, what: str, body: dict[str, str]) -> dict[str, list[dict[str, str]]]:
    request = urllib.request.Request(f"{url}/v3/kv/{what}", json.dumps(body).encode())  # noqa: S310  # our own server
    with urllib.request.urlopen(request, timeout=10) as reply:  # noqa: S310  # our own server
        found: dict[str, list[dict[str, str]]] = json.load(reply)
        return found


def stored(url: str, key: str) -> list[str]:
    rows = call(url, "range", {"key": coded(key)}).get("kvs", [])
    return [base64.b64decode(row["value"]).decode() for row in rows]
