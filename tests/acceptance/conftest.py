"""Servers for whole modules; at their end no kernel is left and the invariants hold."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.acceptance.embedded import Embedded
from tests.acceptance.endings import ended_well


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """`sokovan up`, with its agent in it."""
    server = Embedded(tmp_path_factory.mktemp("up"))
    with ended_well(server):
        server.start()
        yield server
