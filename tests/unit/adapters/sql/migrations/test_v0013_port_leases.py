"""The migration can be applied, reverted and applied again."""

from __future__ import annotations

import pytest

from sokovan.adapters.sql.migrations import v0013_port_leases
from tests.unit.adapters.sql.migrations.stepping import Backend, apply_and_revert


@pytest.mark.slow
@pytest.mark.parametrize("backend", Backend)
async def test_a_reverted_migration_leaves_no_trace(backend: Backend, request: pytest.FixtureRequest) -> None:
    assert v0013_port_leases.revision == "0013"
    await apply_and_revert(backend.url(request), v0013_port_leases)
