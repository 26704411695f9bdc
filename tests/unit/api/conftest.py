"""The API over a real store, for the tests of its parts."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.unit.api.api_harness import ApiHarness, api_harness


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api() -> AsyncIterator[ApiHarness]:
    """The API with three tenants and one agent; each test names its own objects."""
    async with api_harness(failures_per_minute=10_000) as made:
        yield made
