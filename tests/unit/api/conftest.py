"""The API over a real store, for the tests of its parts."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.unit.api.little_api import LittleApi, little_api


@pytest.fixture
async def api() -> AsyncIterator[LittleApi]:
    """The API with three tenants and one agent."""
    async with little_api() as made:
        yield made
