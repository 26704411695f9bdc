"""Contract of AgentGateway, on links to real agents and on fake agents."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sokovan.testing.contracts.agent_gateway import CHECKS, GatewaySubject
from tests.contract.gateways import SUBJECTS, Check


@pytest.fixture(params=SUBJECTS)
async def subject(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[GatewaySubject]:
    async with SUBJECTS[request.param](tmp_path) as ready:
        yield ready


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_contract(check: Check, subject: GatewaySubject) -> None:
    await check(subject)
