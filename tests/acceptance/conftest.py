"""Servers for whole modules; when one is left, the store keeps its laws and nothing runs."""

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
