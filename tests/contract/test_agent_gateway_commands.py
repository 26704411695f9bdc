"""Contract of AgentGateway for further commands, on real processes and on fake agents."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sokovan.testing.contracts.agent_gateway import GatewaySubject
from sokovan.testing.contracts.agent_gateway_commands import COMMAND_CHECKS
from tests.contract.gateways import Check, fake, process


@pytest.fixture(params=[process, fake], ids=lambda kind: kind.__name__)
async def subject(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[GatewaySubject]:
    async with request.param(tmp_path) as ready:
        yield ready


@pytest.mark.parametrize("check", COMMAND_CHECKS, ids=lambda check: check.__name__)
async def test_contract(check: Check, subject: GatewaySubject) -> None:
    await check(subject)
