"""The `--quick` option: no slow test, none that needs a server program, fewer examples and cases.

A test needs a server if it is marked `server`, uses a fixture of `tests.servers`, or has a parameter that names a
server. A test that takes more than a twentieth of a second of processor time is marked `slow`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import pytest
from hypothesis import settings

T = TypeVar("T")

SERVER_FIXTURES = frozenset(
    {
        "postgres_server",
        "postgres_url",
        "migrated_database",
        "migrated_postgres_url",
        "valkey_server",
        "valkey_url",
        "etcd_server",
        "etcd_url",
    }
)
SERVER_NAMES = frozenset({"postgres", "postgresql", "valkey", "etcd"})


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="leave out slow tests and tests that need a server program")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--quick"):
        settings.load_profile("quick")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--quick"):
        return
    left_out = {item for item in items if is_slow(item) or needs_server(item)}
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]


def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest) -> None:
    if fixturedef.argname in SERVER_FIXTURES and request.config.getoption("--quick"):
        pytest.fail(f"{request.node.nodeid} starts a server: name the server in its parameters, or use its fixture")


def at_most(examples: int) -> settings:
    """Settings of a property whose examples are large, or which has many cases: no more than the profile wants."""
    return settings(max_examples=min(examples, settings().max_examples))


def sampled(values: Iterable[T], *, every: int) -> list[object]:
    """Parameters of a test with many alike cases: `--quick` runs one in `every`."""
    return [
        value if place % every == 0 else pytest.param(value, marks=pytest.mark.slow)
        for place, value in enumerate(values)
    ]


def is_slow(item: pytest.Item) -> bool:
    """True if this test is marked `slow`."""
    return item.get_closest_marker("slow") is not None


def needs_server(item: pytest.Item) -> bool:
    """True if this test is marked so, uses a server fixture or has a parameter that names a server."""
    if item.get_closest_marker("server"):
        return True
    parameters = getattr(item, "callspec", None)
    named = set(parameters.id.split("-")) if parameters is not None else set()
    return bool(SERVER_FIXTURES.intersection(getattr(item, "fixturenames", ())) or SERVER_NAMES & named)
