"""What the API is put together from."""

from __future__ import annotations

from dataclasses import fields

import pytest

from sokovan.api.parts import ApiDependencies
from sokovan.scheduling.registry import BUILT_IN
from tests.unit.api.little_api import LittleApi


@pytest.mark.asyncio(loop_scope="module")
async def test_without_plugins_of_its_own_a_system_has_the_built_in_ones(api: LittleApi) -> None:
    assert api.parts.plugins is BUILT_IN


def test_everything_else_must_be_given() -> None:
    required = {one.name for one in fields(ApiDependencies)} - {"plugins"}
    assert required == {
        *("store", "controller", "hints", "events", "agents", "gateway", "clock", "ids", "telemetry", "metrics"),
    }
