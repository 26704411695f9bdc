"""Servers for many tests; at their end no kernel is left and the invariants hold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import gettempdir

import pytest

from tests.acceptance.embedded import Embedded
from tests.acceptance.endings import ended_well


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """`sokovan up`, with its agent in it, one per worker."""
    server = Embedded(tmp_path_factory.mktemp("shared"))
    with ended_well(server):
        server.start()
        # Tests make users there, and run sessions in folders of their own.
        roots = {"name": "default", "mount_roots": [str(Path(gettempdir()).resolve())]}
        assert server.api("PUT", "/scaling-groups/default", json=roots).is_success
        yield server


@pytest.fixture(scope="module")
def server(shared_server: Embedded) -> Iterator[Embedded]:
    """The shared server: a test names what it makes there, and leaves queues and limits of others as they are."""
    yield shared_server
    shared_server.end_all()


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """A server for one module, which changes what applies to every session."""
    server = Embedded(tmp_path_factory.mktemp("up"))
    with ended_well(server):
        server.start()
        yield server
