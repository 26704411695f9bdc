"""The migration can be applied, reverted and applied again."""

from __future__ import annotations

import pytest

from sokovan.adapters.sql.migrations import v0007_asking
from tests.unit.adapters.sql.migrations.stepping import Backend, apply_and_revert


@pytest.mark.slow
@pytest.mark.parametrize("backend", Backend)
async def test_a_reverted_migration_leaves_no_trace(backend: Backend, request: pytest.FixtureRequest) -> None:
    assert v0007_asking.revision == "0007"
    await apply_and_revert(backend.url(request), v0007_asking)
