"""What every route works with."""

from __future__ import annotations

import pytest

from sokovan.api.context import ApiContext
from tests.unit.api.little_api import PEPPER, LittleApi

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_one_hub_and_one_authenticator_serve_everybody(api: LittleApi) -> None:
    context: ApiContext = api.app.state.context
    assert context.parts.controller is api.parts.controller
    assert context.parts.store is context.store
    assert context.settings.pepper == PEPPER
    assert context.streams.limits is context.settings.streams
    found = await context.authenticator.principal(api.tokens["root"])
    assert found is not None
    assert found[1].user.name == "root"
