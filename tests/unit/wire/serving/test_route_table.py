"""The route table accepts what a manager writes and refuses what could harm a proxy."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from sokovan.wire.serving.route_table import EndpointEntry, KeyEntry, RouteEntry, TableUpdate

ENDPOINT: dict[str, Any] = {
    "endpoint_id": "k1.1",
    "revision": 1,
    "host": "127.0.0.1",
    "port": 20_000,
    "state": "ACTIVE",
}
ROUTE: dict[str, Any] = {"deployment_id": "deployment-1", "name": "chat", "project": "default", "owner": "admin"}


def test_a_route_needs_only_its_names() -> None:
    route = msgspec.convert(ROUTE, RouteEntry)

    assert route.access == "private"
    assert route.policy == "prefix"
    assert route.limits.queued_max == 1_000
    assert not route.holding


def test_fields_of_a_later_release_are_skipped() -> None:
    update = msgspec.convert({"epoch": "e1", "version": 3, "colour": "blue"}, TableUpdate)

    assert update == TableUpdate(epoch="e1", version=3)


@pytest.mark.parametrize(
    "change",
    [
        {"endpoint_id": ""},
        {"endpoint_id": "k1 1"},
        {"host": "127.0.0.1\r\nx: y"},
        {"host": "127.0.0.1\n"},
        {"host": ""},
        {"port": 0},
        {"port": 65_536},
        {"state": "READY"},
        {"secret": "s\r\nx-injected: 1"},
        {"secret": "two words"},
        {"weight": -1},
        {"weight": 1_001},
        {"revision": -1},
        {"probe": {"path": "health"}},
        {"probe": {"path": "/health HTTP/1.1\r\nx: y"}},
        {"probe": {"interval_ms": 0}},
    ],
)
def test_an_endpoint_with_a_bad_field_is_refused(change: dict[str, Any]) -> None:
    assert msgspec.convert(ENDPOINT, EndpointEntry).weight == 1

    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({**ENDPOINT, **change}, EndpointEntry)


@pytest.mark.parametrize(
    "change",
    [
        {"deployment_id": ""},
        {"access": "everyone"},
        {"policy": "random"},
        {"models": ["a\nb"]},
        {"models": ["m"] * 65},
        {"sticky_header": "X Session"},
        {"revisions": [{"revision": 1, "concurrency_max": 0}]},
        {"limits": {"queued_max": -1}},
        {"limits": {"body_bytes_max": 1 << 40}},
        {"endpoints": [ENDPOINT] * 1_025},
        {"refusal": {"code": "not placeable", "text": ""}},
    ],
)
def test_a_route_with_a_bad_field_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({**ROUTE, **change}, RouteEntry)


@pytest.mark.parametrize(
    "change", [{"digest": "ab"}, {"digest": "G" * 64}, {"digest": "a" * 64 + "\n"}, {"kind": "root"}, {"key_id": ""}]
)
def test_a_key_with_a_bad_field_is_refused(change: dict[str, Any]) -> None:
    key = {"key_id": "t1", "digest": "a" * 64}
    assert msgspec.convert(key, KeyEntry).limits.requests_per_minute is None

    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({**key, **change}, KeyEntry)
