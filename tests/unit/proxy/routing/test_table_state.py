"""Tables and deltas, and which key may use which route."""

from __future__ import annotations

import hmac
from typing import Any

import pytest

from sokovan.proxy.routing.table_state import StaleDelta, TableState, may_use
from sokovan.wire.serving.route_table import KeyEntry, RouteEntry, TableUpdate
from tests.unit.proxy.routing.states import endpoint, route


def key(**changes: Any) -> KeyEntry:
    return KeyEntry(**{"key_id": "t1", "digest": "a" * 64, "deployments": ("d1",), **changes})


def table(*routes: RouteEntry, version: int = 1, **changes: Any) -> TableUpdate:
    return TableUpdate(**{"epoch": "e", "version": version, "routes": routes, **changes})


def test_a_delta_changes_what_it_names_and_keeps_the_rest() -> None:
    state: TableState[None] = TableState()
    first, second = route(), route(deployment_id="d2", name="other")
    state.apply(table(first, second, keys=(key(), key(key_id="t2", digest="b" * 64)), digest_key="k"))
    kept = state.routes["d2"]
    kept.arrived = 7
    state.apply(table(route(models=("m",)), version=3, base=1, keys_removed=("t1",)))

    assert state.version == 3
    assert state.routes["d1"].entry.models == ("m",)
    assert state.routes["d2"] is kept
    assert list(state.keys) == ["t2"]
    assert state.digest_key == b"k"


def test_a_delta_from_an_older_version_may_be_applied_again() -> None:
    state: TableState[None] = TableState()
    state.apply(table(route(), version=5))
    state.apply(table(version=6, base=3, removed=("d1", "d9")))

    assert not state.routes


@pytest.mark.parametrize(
    "update",
    [table(version=9, base=7), table(version=4, base=2), table(version=9, base=5, epoch="other")],
)
def test_a_delta_that_does_not_follow_is_refused_and_changes_nothing(update: TableUpdate) -> None:
    state: TableState[None] = TableState()
    state.apply(table(route(), version=5))
    with pytest.raises(StaleDelta):
        state.apply(update)

    assert (state.epoch, state.version, list(state.routes)) == ("e", 5, ["d1"])


def test_a_whole_table_replaces_everything() -> None:
    state: TableState[None] = TableState()
    state.apply(table(route(), version=5, keys=(key(),)))
    gone = state.routes["d1"]
    state.apply(table(route(deployment_id="d2", name="b"), version=2, epoch="other"))

    assert gone.removed
    assert (list(state.routes), state.keys) == (["d2"], {})


def test_a_saved_table_is_the_table() -> None:
    state: TableState[None] = TableState()
    state.apply(table(route(), version=5, keys=(key(),), digest_key="k"))
    again: TableState[None] = TableState()
    again.apply(state.snapshot())

    assert again.snapshot() == state.snapshot()


def test_a_route_is_found_by_name_model_and_project() -> None:
    state: TableState[None] = TableState()
    state.apply(table(route(models=("chat", "org/model-7b"))))

    for name in ("chat", "org/model-7b", "p/chat", "p/org/model-7b"):
        assert [found.entry.deployment_id for found in state.named(name)] == ["d1"]
    assert state.named("model-7b") == []


def test_a_key_is_found_by_its_digest() -> None:
    state: TableState[None] = TableState()
    digest = hmac.digest(b"pepper", b"ske_1", "sha256").hex()
    state.apply(table(keys=(key(digest=digest),), digest_key="pepper"))

    found = state.key_of(b"ske_1")
    assert found is not None
    assert found.key_id == "t1"
    assert state.key_of(b"ske_2") is None


@pytest.mark.parametrize(
    ("caller", "access", "allowed"),
    [
        (None, "public", True),
        (None, "private", False),
        (None, "project", False),
        (key(), "private", True),
        (key(deployments=("d2",)), "public", False),
        (key(deployments=()), "private", False),
        (key(kind="user", deployments=(), owner="u"), "private", True),
        (key(kind="user", deployments=(), owner="x"), "private", False),
        (key(kind="user", deployments=(), owner="x", projects=("p",)), "private", False),
        (key(kind="user", deployments=(), owner="x", projects=("p",)), "project", True),
        (key(kind="user", deployments=(), owner="x", projects=("q",)), "project", False),
        (key(kind="user", deployments=(), owner="x"), "public", True),
        (key(models=("other",)), "private", False),
        (key(models=("chat",)), "private", True),
    ],
)
def test_a_key_may_use_what_it_was_made_for(caller: KeyEntry | None, access: str, allowed: bool) -> None:
    assert may_use(caller, route(access=access), "chat") is allowed


def test_the_copy_for_the_disk_has_the_listeners_that_were_noted() -> None:
    state: TableState[None] = TableState()
    state.apply(table(route(endpoint(1))))
    assert state.routes["d1"].endpoints["k001.1"].owns(frozenset({5, 4}))
    saved = state.snapshot()
    assert saved.routes[0].endpoints[0].listeners == (4, 5)

    again: TableState[None] = TableState()
    again.apply(saved)
    again.apply(table(route(endpoint(1)), version=2))
    assert not again.routes["d1"].endpoints["k001.1"].owns(frozenset({6}))
