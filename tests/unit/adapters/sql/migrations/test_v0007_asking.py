"""This step of the schema can be taken, taken back, and taken again."""

from __future__ import annotations

import pytest

from sokovan.adapters.sql.migrations import v0007_asking
from tests.unit.adapters.sql.migrations.stepping import Backend, steps_back_and_forth


@pytest.mark.parametrize("backend", Backend)
async def test_the_step_leaves_no_trace_when_taken_back(backend: Backend, request: pytest.FixtureRequest) -> None:
    assert v0007_asking.revision == "0007"
    await steps_back_and_forth(backend.url(request), v0007_asking)
