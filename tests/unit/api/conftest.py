"""The API over a real store, for the tests of its parts."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.unit.api.little_api import LittleApi, little_api


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api() -> AsyncIterator[LittleApi]:
    """The API with three tenants and one agent; each test names its own objects."""
    async with little_api(failures_per_minute=10_000) as made:
        yield made
